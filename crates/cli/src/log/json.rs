//! Log events as JSON, one object per line.

use std::fmt;
use std::time::SystemTime;

use serde_json::{Map, Value};
use tracing_subscriber::field::RecordFields;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields, FormattedFields};
use tracing_subscriber::registry::LookupSpan;

/// Writes the fields of a span as a JSON object.
pub(super) struct JsonFields;

/// Writes an event as a JSON object: `time`, `level`, `target`, its fields, and one object for each span
/// around it, such as `"request": {"id": "req_…"}`.
pub(super) struct JsonEvents;

impl<'w> FormatFields<'w> for JsonFields {
    fn format_fields<R: RecordFields>(&self, mut writer: Writer<'w>, fields: R) -> fmt::Result {
        let mut collected = Fields::default();
        fields.record(&mut collected);
        write!(writer, "{}", Value::Object(collected.0))
    }
}

impl<S, N> FormatEvent<S, N> for JsonEvents
where
    S: tracing::Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &tracing::Event<'_>,
    ) -> fmt::Result {
        let mut line = Map::new();
        line.insert("time".to_owned(), toolwire_page::time::iso(SystemTime::now()).into());
        line.insert("level".to_owned(), event.metadata().level().as_str().into());
        line.insert("target".to_owned(), event.metadata().target().into());
        let mut fields = Fields::default();
        event.record(&mut fields);
        line.extend(fields.0);
        for span in context.event_scope().into_iter().flat_map(|scope| scope.from_root()) {
            let extensions = span.extensions();
            let fields = extensions.get::<FormattedFields<N>>();
            let fields = fields.and_then(|fields| serde_json::from_str(&fields.fields).ok());
            line.insert(span.name().to_owned(), fields.unwrap_or_default());
        }
        writeln!(writer, "{}", Value::Object(line))
    }
}

/// The fields of an event or a span.
#[derive(Default)]
struct Fields(Map<String, Value>);

impl Fields {
    fn insert(&mut self, field: &tracing::field::Field, value: Value) {
        self.0.insert(field.name().to_owned(), value);
    }
}

impl tracing::field::Visit for Fields {
    fn record_debug(&mut self, field: &tracing::field::Field, value: &dyn fmt::Debug) {
        self.insert(field, format!("{value:?}").into());
    }

    fn record_str(&mut self, field: &tracing::field::Field, value: &str) {
        self.insert(field, value.into());
    }

    fn record_u64(&mut self, field: &tracing::field::Field, value: u64) {
        self.insert(field, value.into());
    }

    fn record_i64(&mut self, field: &tracing::field::Field, value: i64) {
        self.insert(field, value.into());
    }

    fn record_bool(&mut self, field: &tracing::field::Field, value: bool) {
        self.insert(field, value.into());
    }

    fn record_f64(&mut self, field: &tracing::field::Field, value: f64) {
        self.insert(field, value.into());
    }
}
