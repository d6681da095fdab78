package tracing_test

import (
	"strings"
	"testing"

	"github.com/carillonhq/carillon/server/internal/tracing"
)

// env returns a reader of an environment of names and values.
func env(pairs ...string) func(string) string {
	return func(name string) string {
		for i := 0; i < len(pairs); i += 2 {
			if pairs[i] == name {
				return pairs[i+1]
			}
		}
		return ""
	}
}

func TestTheEnvironmentAsksForTraces(t *testing.T) {
	for _, c := range []struct {
		env  []string
		want bool
	}{
		{nil, false},
		{[]string{"OTEL_SERVICE_NAME", "x"}, false},
		{[]string{"OTEL_EXPORTER_OTLP_ENDPOINT", "http://c:4318"}, true},
		{[]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://c:4318/v1/traces"}, true},
		{[]string{"OTEL_TRACES_EXPORTER", "otlp"}, true},
		{[]string{"OTEL_EXPORTER_OTLP_ENDPOINT", "http://c:4318", "OTEL_TRACES_EXPORTER", "none"}, false},
		{[]string{"OTEL_EXPORTER_OTLP_ENDPOINT", "http://c:4318", "OTEL_SDK_DISABLED", "true"}, false},
	} {
		if got := tracing.Wanted(env(c.env...)); got != c.want {
			t.Errorf("%v: %v", c.env, got)
		}
	}
}

// TestWrongSettingsAreRefused by name, where the SDK would go on without them.
func TestWrongSettingsAreRefused(t *testing.T) {
	for _, c := range []struct {
		endpoint string
		env      []string
		names    string
	}{
		{"localhost:4318", nil, "otlp_endpoint"},
		{"grpc://localhost:4317", nil, "otlp_endpoint"},
		{"http://", nil, "otlp_endpoint"},
		{"http://c:4318", []string{"OTEL_SDK_DISABLED", "true"}, "OTEL_SDK_DISABLED"},
		{"http://c:4318", []string{"OTEL_TRACES_EXPORTER", "none"}, "OTEL_TRACES_EXPORTER"},
		{"", []string{"OTEL_TRACES_EXPORTER", "zipkin"}, "OTEL_TRACES_EXPORTER"},
		{"", []string{"OTEL_EXPORTER_OTLP_PROTOCOL", "http/json"}, "OTEL_EXPORTER_OTLP_PROTOCOL"},
		{"", []string{"OTEL_TRACES_SAMPLER", "sometimes"}, "OTEL_TRACES_SAMPLER"},
		{"", []string{"OTEL_TRACES_SAMPLER", "parentbased_jaeger_remote"}, "OTEL_TRACES_SAMPLER"},
		{"", []string{"OTEL_TRACES_SAMPLER", "traceidratio", "OTEL_TRACES_SAMPLER_ARG", "2"}, "OTEL_TRACES_SAMPLER_ARG"},
		{"", []string{"OTEL_BSP_MAX_QUEUE_SIZE", "0"}, "OTEL_BSP_MAX_QUEUE_SIZE"},
		{"", []string{"OTEL_BSP_MAX_QUEUE_SIZE", "99999999999999"}, "OTEL_BSP_MAX_QUEUE_SIZE"},
		{"", []string{"OTEL_BSP_SCHEDULE_DELAY", "5s"}, "OTEL_BSP_SCHEDULE_DELAY"},
		{"", []string{"OTEL_EXPORTER_OTLP_TIMEOUT", "-1"}, "OTEL_EXPORTER_OTLP_TIMEOUT"},
		{"", []string{"OTEL_SPAN_LINK_COUNT_LIMIT", "many"}, "OTEL_SPAN_LINK_COUNT_LIMIT"},
		{"", []string{"OTEL_EXPORTER_OTLP_ENDPOINT", "collector:4318"}, "OTEL_EXPORTER_OTLP_ENDPOINT"},
		{"", []string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "collector"}, "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"},
		{"", []string{"OTEL_EXPORTER_OTLP_ENDPOINT", "unix:///run/otel"}, "OTEL_EXPORTER_OTLP_ENDPOINT"},
		{"", []string{"OTEL_EXPORTER_OTLP_HEADERS", "authorization"}, "OTEL_EXPORTER_OTLP_HEADERS"},
		{"", []string{"OTEL_EXPORTER_OTLP_TRACES_HEADERS", "a=1,b c=2"}, "OTEL_EXPORTER_OTLP_TRACES_HEADERS"},
		{"", []string{"OTEL_EXPORTER_OTLP_COMPRESSION", "zstd"}, "OTEL_EXPORTER_OTLP_COMPRESSION"},
		{"", []string{"OTEL_EXPORTER_OTLP_INSECURE", "yes"}, "OTEL_EXPORTER_OTLP_INSECURE"},
		{"", []string{"OTEL_EXPORTER_OTLP_CERTIFICATE", "options_test.go"}, "OTEL_EXPORTER_OTLP_CERTIFICATE"},
		{"", []string{"OTEL_EXPORTER_OTLP_CERTIFICATE", "missing.pem"}, "OTEL_EXPORTER_OTLP_CERTIFICATE"},
		{"", []string{"OTEL_EXPORTER_OTLP_CLIENT_KEY", "options_test.go"}, "OTEL_EXPORTER_OTLP_CLIENT_KEY"},
	} {
		err := tracing.Options{Endpoint: c.endpoint, Getenv: env(c.env...)}.Validate()
		if err == nil || !strings.Contains(err.Error(), c.names) {
			t.Errorf("%q %v: %v", c.endpoint, c.env, err)
		}
	}
	for _, sampler := range []string{"", "always_on", "always_off", "traceidratio", "parentbased_always_on",
		"parentbased_always_off", "parentbased_traceidratio"} {
		o := tracing.Options{Endpoint: "https://c:4318/base/", Getenv: env("OTEL_TRACES_SAMPLER", sampler,
			"OTEL_TRACES_SAMPLER_ARG", "0.5", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "grpc")}
		if err := o.Validate(); err != nil {
			t.Errorf("%s: %v", sampler, err)
		}
	}
}

// TestAHeaderThatIsRefusedIsNotShown: it may be a credential.
func TestAHeaderThatIsRefusedIsNotShown(t *testing.T) {
	for _, text := range []string{"authorization=Bearer%20secret%zz", "authorization:secret", "a b=secret", "=secret"} {
		err := tracing.Options{Getenv: env("OTEL_EXPORTER_OTLP_HEADERS", text)}.Validate()
		if err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// TestRightVariablesAreTaken as OpenTelemetry has them.
func TestRightVariablesAreTaken(t *testing.T) {
	for _, vars := range [][]string{
		{"OTEL_EXPORTER_OTLP_ENDPOINT", "https://collector.example:4318/base", "OTEL_EXPORTER_OTLP_HEADERS",
			"authorization=Bearer%20x, x-tenant = a", "OTEL_EXPORTER_OTLP_COMPRESSION", "gzip"},
		{"OTEL_EXPORTER_OTLP_ENDPOINT", "unix:///run/otel", "OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"},
		{"OTEL_BSP_SCHEDULE_DELAY", "5000", "OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "10000",
			"OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT", "-1", "OTEL_EXPORTER_OTLP_INSECURE", "TRUE"},
	} {
		if err := (tracing.Options{Getenv: env(vars...)}).Validate(); err != nil {
			t.Errorf("%v: %v", vars, err)
		}
	}
}
