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
