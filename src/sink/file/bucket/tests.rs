//! Claims about templates and the sorting of rows.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use arrow::array::*;
use arrow::datatypes::*;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use proptest::prelude::*;

use super::*;

fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("id", DataType::Int64, false),
        Field::new("ts", DataType::Timestamp(TimeUnit::Millisecond, None), true),
        Field::new("country", DataType::Utf8, true),
        Field::new("price", DataType::Decimal128(10, 2), true),
        Field::new("day", DataType::Date32, true),
        Field::new("new", DataType::Boolean, true),
    ]))
}

fn batch(rows: &[(Option<i64>, Option<&str>)]) -> RecordBatch {
    let ids = (0..rows.len()).map(|row| i64::try_from(row).unwrap());
    RecordBatch::try_new(
        schema(),
        vec![
            Arc::new(ids.clone().collect::<Int64Array>()),
            Arc::new(rows.iter().map(|row| row.0).collect::<TimestampMillisecondArray>()),
            Arc::new(rows.iter().map(|row| row.1).collect::<StringArray>()),
            Arc::new(
                ids.clone()
                    .map(|id| Some(i128::from(id) * 5))
                    .collect::<Decimal128Array>()
                    .with_precision_and_scale(10, 2)
                    .unwrap(),
            ),
            Arc::new(ids.clone().map(|id| i32::try_from(id % 3).ok()).collect::<Date32Array>()),
            Arc::new(ids.map(|id| Some(id % 2 == 0)).collect::<BooleanArray>()),
        ],
    )
    .unwrap()
}

fn template(levels: &[&str]) -> BucketTemplate {
    BucketTemplate::new(levels, &TimeZone::UTC, &schema()).unwrap()
}

/// Bucket path to row numbers.
fn sorted(assigned: &Assigned) -> BTreeMap<String, Vec<u32>> {
    assigned
        .buckets
        .iter()
        .map(|bucket| (bucket.bucket.as_str().to_owned(), bucket.rows.values().to_vec()))
        .collect()
}

fn ms(text: &str) -> Option<i64> {
    Some(text.parse::<Timestamp>().unwrap().as_millisecond())
}

#[test]
fn days_and_hours_are_told_in_the_zone() {
    let rows = batch(&[
        (ms("2026-03-29T00:59:59.999Z"), None),
        (ms("2026-03-29T01:00:00Z"), None),
        (ms("2026-03-28T23:30:00Z"), None),
        (None, None),
        (ms("1969-12-31T23:59:59.999Z"), None),
    ]);
    let utc = template(&["dt={ts:%Y-%m-%d}", "hour={ts:%H}"]).assign(&rows, Timestamp::UNIX_EPOCH).unwrap();
    let null = format!("dt={NULL_NAME}/hour={NULL_NAME}");
    assert_eq!(
        sorted(&utc),
        BTreeMap::from([
            ("dt=2026-03-29/hour=00".to_owned(), vec![0]),
            ("dt=2026-03-29/hour=01".to_owned(), vec![1]),
            ("dt=2026-03-28/hour=23".to_owned(), vec![2]),
            (null.clone(), vec![3]),
            ("dt=1969-12-31/hour=23".to_owned(), vec![4]),
        ])
    );
    // The clocks of Berlin go from 1:59 to 3:00 at 01:00 UTC that day.
    let berlin = TimeZone::get("Europe/Berlin").unwrap();
    let berlin = BucketTemplate::by_hour("ts", &berlin, &schema()).unwrap();
    assert_eq!(
        sorted(&berlin.assign(&rows, Timestamp::UNIX_EPOCH).unwrap()),
        BTreeMap::from([
            ("dt=2026-03-29/hour=01".to_owned(), vec![0]),
            ("dt=2026-03-29/hour=03".to_owned(), vec![1]),
            ("dt=2026-03-29/hour=00".to_owned(), vec![2]),
            (null, vec![3]),
            ("dt=1970-01-01/hour=00".to_owned(), vec![4]),
        ])
    );
}

#[test]
fn fields_leave_the_file_and_derived_levels_keep_theirs() {
    let template = template(&["dt={ts:%F}", "country={country}"]);
    let long = "x".repeat(300);
    let rows = batch(&[(Some(0), Some("de")), (Some(0), Some(&long)), (Some(0), None), (Some(0), Some(""))]);
    let assigned = template.assign(&rows, Timestamp::UNIX_EPOCH).unwrap();
    let columns: Vec<Vec<usize>> =
        assigned.buckets.iter().map(|rows| template.columns(&rows.bucket)).collect();
    assert_eq!(assigned.buckets.len(), 3, "null and empty are one");
    assert_eq!(columns[0], [0, 1, 3, 4, 5]);
    assert_eq!(columns[1], [0, 1, 2, 3, 4, 5], "a cut value stays in the file");
    assert_eq!(columns[2], [0, 1, 3, 4, 5]);
}

#[test]
fn the_reserved_name_as_a_value_is_a_bad_record() {
    let template = template(&["country={country}"]);
    let rows = batch(&[(None, Some("a")), (None, Some(NULL_NAME)), (None, Some("a"))]);
    let assigned = template.assign(&rows, Timestamp::UNIX_EPOCH).unwrap();
    assert_eq!(sorted(&assigned), BTreeMap::from([("country=a".to_owned(), vec![0, 2])]));
    assert_eq!(assigned.unplaced.len(), 1);
    assert_eq!(assigned.unplaced[0].row, 1);
    assert!(assigned.unplaced[0].reason.contains("country"), "{}", assigned.unplaced[0].reason);
}

#[test]
fn a_time_that_no_calendar_tells_is_a_bad_record() {
    let template = template(&["dt={ts:%F}"]);
    let rows = batch(&[(Some(i64::MAX), None), (Some(i64::MIN), None), (Some(0), None)]);
    let assigned = template.assign(&rows, Timestamp::UNIX_EPOCH).unwrap();
    assert_eq!(sorted(&assigned), BTreeMap::from([("dt=1970-01-01".to_owned(), vec![2])]));
    assert_eq!(assigned.unplaced.iter().map(|row| row.row).collect::<Vec<_>>(), [0, 1]);
}

#[test]
fn numbers_dates_and_booleans_are_levels() {
    let template = template(&["price={price}", "day={day}", "new={new}"]);
    let assigned = template.assign(&batch(&[(None, None), (None, None)]), Timestamp::UNIX_EPOCH).unwrap();
    assert_eq!(
        sorted(&assigned),
        BTreeMap::from([
            ("price=0.00/day=1970-01-01/new=true".to_owned(), vec![0]),
            ("price=0.05/day=1970-01-02/new=false".to_owned(), vec![1]),
        ])
    );
}

#[test]
fn arrival_is_a_level_of_its_own() {
    let template = template(&["in={arrival:%Y-%m-%d %H:%M}"]);
    let arrival = "2026-01-02T03:04:05Z".parse().unwrap();
    let assigned = template.assign(&batch(&[(None, None), (Some(1), None)]), arrival).unwrap();
    assert_eq!(sorted(&assigned), BTreeMap::from([("in=2026-01-02%2003%3A04".to_owned(), vec![0, 1])]));
}

#[test]
fn dates_take_formats_without_a_zone() {
    let berlin = TimeZone::get("America/New_York").unwrap();
    let template = BucketTemplate::new(&["d={day:%Y-%m-%d}"], &berlin, &schema()).unwrap();
    let assigned = template.assign(&batch(&[(None, None), (None, None)]), Timestamp::UNIX_EPOCH).unwrap();
    assert_eq!(
        sorted(&assigned),
        BTreeMap::from([("d=1970-01-01".to_owned(), vec![0]), ("d=1970-01-02".to_owned(), vec![1])])
    );
}

#[test]
fn wrong_templates_are_refused_with_a_reason() {
    for (levels, reason) in [
        (vec!["dt"], "a level is name="),
        (vec!["dt=x"], "a level is name="),
        (vec!["={country}"], "no name"),
        (vec!["a/b={country}"], "no name"),
        (vec!["_c={country}"], "skip folders"),
        (vec![".c={country}"], "skip folders"),
        (vec!["c={nowhere}"], "there are id, ts"),
        (vec!["c={country}{id}"], "one value"),
        (vec!["c={ts}"], "give it a format"),
        (vec!["c={arrival}"], "needs a format"),
        (vec!["c={country:%Y}"], "only times"),
        (vec!["c={ts:}"], "empty"),
        (vec!["c={ts:%}"], "format"),
        (vec!["c={country}", "C={id}"], "two levels"),
        (vec!["c={country}", "d={country}"], "twice"),
        (vec!["price={ts:%Y}"], "two columns"),
        (vec!["ID={ts:%Y}"], "two columns"),
    ] {
        let error = BucketTemplate::new(&levels, &TimeZone::UTC, &schema()).unwrap_err();
        assert!(error.to_string().contains(reason), "{levels:?}: {error}");
        assert_eq!(error.kind(), crate::ErrorKind::Usage);
    }
    let only = Arc::new(Schema::new(vec![Field::new("c", DataType::Utf8, true)]));
    let error = BucketTemplate::by_fields(&["c"], &only).unwrap_err();
    assert!(error.to_string().contains("none would be left"), "{error}");
    let float = Arc::new(Schema::new(vec![
        Field::new("f", DataType::Float64, true),
        Field::new("id", DataType::Int64, true),
    ]));
    assert!(BucketTemplate::by_fields(&["f"], &float).is_err());
}

#[test]
fn keys_that_lead_out_are_refused() {
    for path in ["..", "a/..", "/a", "a/", "a//b", ".", ".hidden", "a/.b", "a\0"] {
        assert!(BucketKey::new(path).is_err(), "{path:?}");
    }
    assert_eq!(BucketKey::new("a/b").unwrap().folder(Path::new("t")), Path::new("t/a/b"));
    assert_eq!(BucketKey::base().folder(Path::new("t")), Path::new("t"));
}

/// What the template says of one row, with no cache and no table.
fn slow(text: &str, zone: &TimeZone, tick_ms: i64) -> String {
    let zoned = Timestamp::from_millisecond(tick_ms).unwrap().to_zoned_datetime(zone.clone());
    let text = jiff::fmt::strtime::BrokenDownTime::from(&zoned).to_string(text).unwrap();
    super::escape::escape(&text).unwrap()
}

proptest! {
    #[test]
    fn the_sorting_agrees_with_asking_for_each_row(
        zone in prop::sample::select(vec![
            "UTC", "Europe/Berlin", "Asia/Kathmandu", "Africa/Monrovia", "Australia/Lord_Howe", "Pacific/Apia",
            "America/New_York", "Antarctica/Troll",
        ]),
        format in prop::sample::select(vec![
            "%Y-%m-%d", "%H", "%Y-%m-%dT%H", "%H%M", "%T", "%z", "%Z %H", "%j", "%s", "%3f", "%I%p", "x%%y%Y",
        ]),
        base in prop::sample::select(vec![0_i64, 1_774_746_000_000, 1_760_000_000_000, -2_500_000_000_000,
            63_593_070_000, 1_325_239_200_000]),
        offsets in prop::collection::vec(-200_000_000_i64..200_000_000, 1..200),
        near in prop::collection::vec(-4_000_000_i64..4_000_000, 1..100),
    ) {
        let zone = TimeZone::get(zone).unwrap();
        let template = BucketTemplate::new(
            &[format!("t={{ts:{format}}}")], &zone, &schema()).unwrap();
        let ticks: Vec<i64> = offsets.iter().chain(&near).map(|offset| base + offset).collect();
        let rows: Vec<_> = ticks.iter().map(|tick| (Some(*tick), None)).collect();
        for _ in 0..2 {
            let assigned = template.assign(&batch(&rows), Timestamp::UNIX_EPOCH).unwrap();
            let mut seen = BTreeSet::new();
            for bucket in &assigned.buckets {
                let mut before = None;
                for row in bucket.rows.values() {
                    prop_assert!(before < Some(*row));
                    before = Some(*row);
                    prop_assert!(seen.insert(*row));
                    let want = slow(format, &zone, ticks[*row as usize]);
                    prop_assert_eq!(bucket.bucket.as_str(), format!("t={}", want));
                }
            }
            prop_assert_eq!(seen.len(), ticks.len());
        }
    }

    #[test]
    fn two_pairs_of_values_never_share_a_bucket(
        pairs in prop::collection::vec(("[ab/.]{0,3}", "[ab/.]{0,3}"), 1..60),
    ) {
        let schema = Arc::new(Schema::new(vec![
            Field::new("a", DataType::Utf8, true),
            Field::new("b", DataType::Utf8, true),
            Field::new("id", DataType::Int64, true),
        ]));
        let template = BucketTemplate::by_fields(&["a", "b"], &schema).unwrap();
        let rows = RecordBatch::try_new(schema, vec![
            Arc::new(pairs.iter().map(|pair| Some(&pair.0)).collect::<StringArray>()),
            Arc::new(pairs.iter().map(|pair| Some(&pair.1)).collect::<StringArray>()),
            Arc::new(pairs.iter().map(|_| 0).collect::<Int64Array>()),
        ]).unwrap();
        let assigned = template.assign(&rows, Timestamp::UNIX_EPOCH).unwrap();
        let distinct: BTreeSet<_> = pairs.iter().collect();
        prop_assert_eq!(assigned.buckets.len(), distinct.len());
        for bucket in &assigned.buckets {
            let first = &pairs[bucket.rows.value(0) as usize];
            for row in bucket.rows.values() {
                prop_assert_eq!(&pairs[*row as usize], first);
            }
            let base = Path::new("base");
            let folder = bucket.bucket.folder(base);
            prop_assert_eq!(folder.components().count(), 3);
            prop_assert!(folder.components().all(|part| matches!(part, std::path::Component::Normal(_))));
        }
    }
}

#[test]
fn many_levels_with_many_values_are_sorted_right() {
    let names: Vec<String> = (0..2_000).map(|row| format!("c{}", row % 997)).collect();
    let rows: Vec<_> = names
        .iter()
        .enumerate()
        .map(|(row, name)| (Some(row as i64 * 3_600_000), Some(name.as_str())))
        .collect();
    let template = template(&["h={ts:%Y-%m-%dT%H}", "country={country}", "new={new}"]);
    let assigned = template.assign(&batch(&rows), Timestamp::UNIX_EPOCH).unwrap();
    assert_eq!(assigned.buckets.len(), 2_000);
    assert!(assigned.buckets.iter().all(|bucket| bucket.rows.len() == 1));
}

#[test]
#[ignore = "a measurement: prints nanoseconds a row"]
#[expect(clippy::disallowed_methods, reason = "a measurement")]
fn sorting_into_24_hours_costs_few_nanoseconds_a_row() {
    let hours: Vec<(Option<i64>, Option<&str>)> =
        (0..8_192_i64).map(|row| (Some((row * 7_919) % 86_400_000), None)).collect();
    let rows = batch(&hours);
    let template = template(&["dt={ts:%Y-%m-%d}", "hour={ts:%H}"]);
    let start = std::time::Instant::now();
    for _ in 0..1_000 {
        assert_eq!(template.assign(&rows, Timestamp::UNIX_EPOCH).unwrap().buckets.len(), 24);
    }
    println!("{:.1} ns a row", start.elapsed().as_nanos() as f64 / 8_192_000.0);
}
