//! The variables of OpenTelemetry for exporters.

use std::time::Duration;

use reqwest::Url;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};

use crate::command_error::CommandError;

const TIMEOUT: Duration = Duration::from_secs(10);
const METRIC_INTERVAL: Duration = Duration::from_secs(60);

/// The export that the environment configures.
pub(crate) struct Variables {
    pub(super) traces: Option<Target>,
    pub(super) metrics: Option<Target>,
    /// The attributes of this service.
    pub(super) resource: Vec<(String, String)>,
    pub(super) timeout: Duration,
    pub(super) metric_interval: Duration,
}

/// The destination of one kind of data.
#[derive(Clone)]
pub(super) struct Target {
    pub(super) url: Url,
    pub(super) headers: HeaderMap,
}

impl Variables {
    /// Reads the variables. Without an endpoint, nothing is exported.
    pub(crate) fn read(lookup: impl Fn(&str) -> Option<String>) -> Result<Variables, CommandError> {
        let get =
            |name: &str| lookup(name).map(|value| value.trim().to_owned()).filter(|value| !value.is_empty());
        let milliseconds = |name: &str, default: Duration| match get(name) {
            None => Ok(default),
            Some(text) => text.parse().map(Duration::from_millis).map_err(|_| {
                CommandError::usage(format!("{name}: `{text}` is not a number of milliseconds"))
                    .with_hint("write a number such as 10000")
            }),
        };
        let is_disabled = get("OTEL_SDK_DISABLED").is_some_and(|value| value.eq_ignore_ascii_case("true"));
        let target = |kind: &str, path: &str| {
            let exporter = get(&format!("OTEL_{kind}_EXPORTER"));
            match is_disabled || exporter.is_some_and(|name| name != "otlp") {
                true => Ok(None),
                false => target(&get, kind, path),
            }
        };
        let mut resource = vec![("service.name".to_owned(), "toolwire".to_owned())];
        let version = ("service.version".to_owned(), env!("CARGO_PKG_VERSION").to_owned());
        resource.push(version);
        for (name, value) in get("OTEL_RESOURCE_ATTRIBUTES").iter().flat_map(|text| pairs(text)) {
            resource.retain(|(known, _)| *known != name);
            resource.push((name, value));
        }
        if let Some(name) = get("OTEL_SERVICE_NAME") {
            resource.retain(|(known, _)| known != "service.name");
            resource.push(("service.name".to_owned(), name));
        }
        Ok(Variables {
            traces: target("TRACES", "v1/traces")?,
            metrics: target("METRICS", "v1/metrics")?,
            resource,
            timeout: milliseconds("OTEL_EXPORTER_OTLP_TIMEOUT", TIMEOUT)?,
            metric_interval: milliseconds("OTEL_METRIC_EXPORT_INTERVAL", METRIC_INTERVAL)?,
        })
    }
}

/// Returns the destination of one kind of data, if it has an endpoint.
fn target(
    get: &impl Fn(&str) -> Option<String>,
    kind: &str,
    path: &str,
) -> Result<Option<Target>, CommandError> {
    let own = format!("OTEL_EXPORTER_OTLP_{kind}_ENDPOINT");
    let common = "OTEL_EXPORTER_OTLP_ENDPOINT";
    let (name, text) = match (get(&own), get(common)) {
        (Some(text), _) => (own.as_str(), text),
        // The path is added to the common endpoint only.
        (None, Some(text)) => (common, format!("{}/{path}", text.trim_end_matches('/'))),
        (None, None) => return Ok(None),
    };
    for variable in [format!("OTEL_EXPORTER_OTLP_{kind}_PROTOCOL"), "OTEL_EXPORTER_OTLP_PROTOCOL".to_owned()]
    {
        if let Some(protocol) = get(&variable).filter(|protocol| protocol != "http/protobuf") {
            return Err(CommandError::usage(format!("{variable}: `{protocol}` is not supported")).with_hint(
                "use `http/protobuf`, and the port of the collector for HTTP, which is 4318 by default",
            ));
        }
    }
    let url = Url::parse(&text).ok().filter(|url| ["http", "https"].contains(&url.scheme()));
    let url = url.ok_or_else(|| {
        CommandError::usage(format!("{name} is not an address of a collector"))
            .with_hint("write an address such as http://127.0.0.1:4318")
    })?;
    let mut headers = HeaderMap::new();
    let variables = ["OTEL_EXPORTER_OTLP_HEADERS".to_owned(), format!("OTEL_EXPORTER_OTLP_{kind}_HEADERS")];
    for variable in variables {
        for (name, value) in get(&variable).iter().flat_map(|text| pairs(text)) {
            let header = HeaderName::try_from(&name).ok().zip(HeaderValue::from_str(&value).ok());
            let (header, mut value) = header.ok_or_else(|| {
                CommandError::usage(format!("{variable}: `{name}` is not a header"))
                    .with_hint("write `name=value`, separated by commas")
            })?;
            value.set_sensitive(true);
            headers.insert(header, value);
        }
    }
    Ok(Some(Target { url, headers }))
}

/// Reads `name=value` pairs that are separated by commas. Values are percent-encoded.
fn pairs(text: &str) -> Vec<(String, String)> {
    let pair = |pair: &str| {
        let (name, value) = pair.split_once('=')?;
        let value = percent_encoding::percent_decode_str(value.trim()).decode_utf8_lossy().into_owned();
        Some((name.trim().to_owned(), value))
    };
    text.split(',').filter_map(pair).filter(|(name, _)| !name.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(variables: &[(&str, &str)]) -> Result<Variables, CommandError> {
        let lookup = |name: &str| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        };
        Variables::read(lookup)
    }

    fn urls(variables: &[(&str, &str)]) -> [Option<String>; 2] {
        let read = read(variables).unwrap_or_else(|_| panic!("valid variables"));
        [read.traces, read.metrics].map(|target| target.map(|target| target.url.to_string()))
    }

    #[test]
    fn the_usual_variables_are_read() {
        assert_eq!(urls(&[]), [None, None]);
        let endpoint = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector:4318/");
        let traces = Some("http://collector:4318/v1/traces".to_owned());
        let metrics = Some("http://collector:4318/v1/metrics".to_owned());
        assert_eq!(urls(&[endpoint]), [traces.clone(), metrics.clone()]);
        assert_eq!(urls(&[endpoint, ("OTEL_SDK_DISABLED", "true")]), [None, None]);
        assert_eq!(urls(&[endpoint, ("OTEL_METRICS_EXPORTER", "none")]), [traces, None]);
        let own = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "https://other/x");
        assert_eq!(urls(&[endpoint, own]), [Some("https://other/x".to_owned()), metrics]);
        let headers = ("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Basic%20abc, x-b=2");
        let attributes = ("OTEL_RESOURCE_ATTRIBUTES", "service.name=other,deployment.environment.name=test");
        let found = read(&[endpoint, headers, attributes, ("OTEL_SERVICE_NAME", "mine")])
            .unwrap_or_else(|_| panic!("valid"));
        let target = found.traces.expect("a target");
        assert_eq!(target.headers["authorization"], "Basic abc");
        assert_eq!(target.headers["x-b"], "2");
        let attribute = |name: &str| found.resource.iter().filter(|(known, _)| known == name).count();
        assert_eq!((attribute("service.name"), attribute("deployment.environment.name")), (1, 1));
        assert!(found.resource.contains(&("service.name".to_owned(), "mine".to_owned())));
    }

    #[test]
    fn mistakes_are_reported() {
        let endpoint = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector:4318");
        for wrong in [
            ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "collector:4317"),
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"),
            ("OTEL_EXPORTER_OTLP_TIMEOUT", "soon"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "a b=c"),
        ] {
            assert!(read(&[endpoint, wrong]).is_err(), "{wrong:?}");
        }
    }
}
