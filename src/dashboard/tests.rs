//! The endpoint answers what it should, and refuses the rest.

use std::sync::Arc;

use tokio::io::AsyncReadExt;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use super::*;
use crate::clock::SystemClock;
use crate::stream::TaskId;

async fn start() -> SocketAddr {
    let metrics = Arc::new(Metrics::new("clicks", Arc::new(SystemClock::new())));
    metrics.source(&TaskId::new("source")).records.add(5);
    let addr = "127.0.0.1:0".parse().unwrap();
    let endpoint = Endpoint::bind(addr, metrics, vec!["metrics.example".to_owned()]).await.unwrap();
    let addr = endpoint.addr();
    tokio::spawn(endpoint.run());
    addr
}

async fn ask(addr: SocketAddr, request: &str) -> String {
    let mut stream = TcpStream::connect(addr).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

async fn get(addr: SocketAddr, path: &str, host: &str) -> String {
    ask(addr, &format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n")).await
}

#[tokio::test]
async fn the_numbers_are_answered_as_prometheus_text() {
    let addr = start().await;
    let answer = get(addr, "/metrics", &addr.to_string()).await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert!(answer.contains("content-type: text/plain; version=0.0.4"), "{answer}");
    assert!(
        answer.contains("alluvium_source_records_total{job=\"clicks\",source=\"source\"} 5\n"),
        "{answer}"
    );
}

#[tokio::test]
async fn a_host_name_that_was_not_allowed_is_refused() {
    let addr = start().await;
    for host in ["localhost", "LocalHost:9", "127.0.0.1", "[::1]:80", "metrics.example:9090"] {
        assert!(get(addr, "/metrics", host).await.starts_with("HTTP/1.1 200"), "{host}");
    }
    for host in
        ["evil.example", "evil.example:80", "127.0.0.1.evil.example", "localhost:x", "[::1", "[x]", ""]
    {
        let answer = get(addr, "/metrics", host).await;
        assert!(answer.starts_with("HTTP/1.1 403"), "{host}: {answer}");
        assert!(!answer.contains("alluvium_"), "{host}: {answer}");
    }
    let answer = get(addr, "http://evil.example/metrics", "localhost").await;
    assert!(answer.starts_with("HTTP/1.1 403"), "{answer}");
}

#[tokio::test]
async fn nothing_else_is_answered() {
    let addr = start().await;
    assert!(get(addr, "/", "localhost").await.starts_with("HTTP/1.1 404"));
    assert!(get(addr, "/metrics/x", "localhost").await.starts_with("HTTP/1.1 404"));
    let post = "POST /metrics HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    assert!(ask(addr, post).await.starts_with("HTTP/1.1 405"));
}

#[tokio::test]
async fn an_address_in_use_is_an_error_of_usage() {
    let addr = start().await;
    let metrics = Arc::new(Metrics::new("clicks", Arc::new(SystemClock::new())));
    let error = serve(addr, metrics).await.err().unwrap();
    assert_eq!(error.kind(), crate::ErrorKind::Usage);
    assert!(error.to_string().contains(&addr.to_string()), "{error}");
}
