//! One HTTP endpoint about one running job: `GET /metrics`, and nothing else.
//!
//! It listens where it is told and answers only requests that name a host they could not have been
//! tricked into: an address, `localhost`, or a name that was allowed. A page in a browser that points a
//! name of its own at this machine (DNS rebinding) therefore reads nothing. Nothing can be changed here.

mod host;
#[cfg(test)]
mod tests;

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::http::StatusCode;
use axum::http::Uri;
use axum::http::header;
use axum::response::IntoResponse;
use axum::response::Response;
use axum::routing::get;

use crate::dashboard::host::HostNames;
use crate::error::Error;
use crate::error::Result;
use crate::telemetry::CONTENT_TYPE;
use crate::telemetry::Metrics;

/// Listens on `addr` and answers `GET /metrics`; the future runs until it is dropped.
///
/// # Errors
///
/// [`crate::ErrorKind::Usage`] when the address cannot be listened on.
pub async fn serve(
    addr: SocketAddr,
    metrics: Arc<Metrics>,
) -> Result<impl Future<Output = Result<()>> + Send + 'static> {
    Ok(Endpoint::bind(addr, metrics, Vec::new()).await?.run())
}

/// A bound endpoint that does not answer yet.
#[derive(Debug)]
pub struct Endpoint {
    listener: tokio::net::TcpListener,
    addr: SocketAddr,
    shared: Shared,
}

#[derive(Debug, Clone)]
struct Shared {
    metrics: Arc<Metrics>,
    names: Arc<HostNames>,
}

impl Endpoint {
    /// Listens on `addr`; port 0 takes a free one. Requests may name the host by any of `names` too.
    ///
    /// # Errors
    ///
    /// [`crate::ErrorKind::Usage`] when the address cannot be listened on.
    pub async fn bind(addr: SocketAddr, metrics: Arc<Metrics>, names: Vec<String>) -> Result<Self> {
        let failed = |error: std::io::Error| {
            Error::usage(format!("metrics cannot be served on {addr}")).with_source(error)
        };
        let listener = tokio::net::TcpListener::bind(addr).await.map_err(failed)?;
        let addr = listener.local_addr().map_err(failed)?;
        Ok(Self { listener, addr, shared: Shared { metrics, names: Arc::new(HostNames::new(names)) } })
    }

    /// Where it listens.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Answers until it is dropped.
    pub async fn run(self) -> Result<()> {
        let routes =
            Router::new().route("/metrics", get(answer)).fallback(nothing_here).with_state(self.shared);
        axum::serve(self.listener, routes)
            .await
            .map_err(|error| Error::retry("metrics are not served any more").with_source(error))
    }
}

async fn answer(State(shared): State<Shared>, uri: Uri, headers: HeaderMap) -> Response {
    let named = headers.get(header::HOST).and_then(|host| host.to_str().ok());
    let authority = uri.authority().map(axum::http::uri::Authority::as_str);
    let allowed = [named, authority].into_iter().flatten().all(|host| shared.names.allow(host));
    if named.is_none() || !allowed {
        let refusal = "this host name is not allowed; use an address, or allow the name at the start\n";
        return (StatusCode::FORBIDDEN, refusal).into_response();
    }
    let kind = [(header::CONTENT_TYPE, CONTENT_TYPE), (header::X_CONTENT_TYPE_OPTIONS, "nosniff")];
    (kind, shared.metrics.to_prometheus()).into_response()
}

async fn nothing_here() -> Response {
    (StatusCode::NOT_FOUND, "there is only /metrics\n").into_response()
}
