package tracing

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strconv"
	"strings"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// Options say where spans go. What they leave open is OpenTelemetry's variables' to say: OTEL_SERVICE_NAME,
// OTEL_RESOURCE_ATTRIBUTES, OTEL_TRACES_SAMPLER and its _ARG, OTEL_BSP_…, OTEL_EXPORTER_OTLP_….
type Options struct {
	// Endpoint is the URL of a collector, as in OTEL_EXPORTER_OTLP_ENDPOINT; empty: the variables say.
	Endpoint string
	Node     string // the node's name
	Version  string // the program's
	Log      *slog.Logger
	// Count is told what became of spans: "exported", "failed" or "dropped". It must not block.
	Count func(outcome string, n int)
	// Getenv reads the environment, as [os.Getenv]; the SDK reads the process's all the same.
	Getenv func(string) string
}

// Variables that are read here; the SDK reads the others itself.
const (
	envDisabled       = "OTEL_SDK_DISABLED"
	envExporter       = "OTEL_TRACES_EXPORTER"
	envEndpoint       = "OTEL_EXPORTER_OTLP_ENDPOINT"
	envTracesEndpoint = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"
	envProtocol       = "OTEL_EXPORTER_OTLP_PROTOCOL"
	envTracesProtocol = "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"
	envSampler        = "OTEL_TRACES_SAMPLER"
	envSamplerArg     = "OTEL_TRACES_SAMPLER_ARG"
	envQueue          = "OTEL_BSP_MAX_QUEUE_SIZE"
)

// Wanted reports whether the environment asks for traces to be exported: it names an endpoint or an exporter.
func Wanted(getenv func(string) string) bool {
	if disabled(getenv) {
		return false
	}
	return getenv(envExporter) != "" || getenv(envEndpoint) != "" || getenv(envTracesEndpoint) != ""
}

// disabled reports whether the environment forbids traces.
func disabled(getenv func(string) string) bool {
	return strings.EqualFold(getenv(envDisabled), "true") || getenv(envExporter) == "none"
}

// mostQueued is how many spans may wait to be exported: each takes memory from the start.
const mostQueued = 100_000

// plan is what options and environment come to.
type plan struct {
	endpoint string // empty: the exporter reads the variables
	grpc     bool
	sampler  sdktrace.Sampler
	queue    int // most spans that wait
}

// Validate returns everything that is wrong with the options and with the variables that belong to them.
func (o Options) Validate() error {
	_, err := o.plan()
	return err
}

func (o Options) plan() (p plan, err error) {
	var faults []error
	wrong := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	if disabled(o.Getenv) {
		wrong("otlp_endpoint: %s or %s says that there are to be no traces", envDisabled, envExporter)
	}
	if name := cmp.Or(o.Getenv(envExporter), "otlp"); name != "otlp" && name != "none" {
		wrong("%s: %q is not otlp or none", envExporter, name)
	}
	switch protocol := cmp.Or(o.Getenv(envTracesProtocol), o.Getenv(envProtocol), "http/protobuf"); protocol {
	case "grpc":
		p.grpc = true
	case "http/protobuf":
	default:
		wrong("%s: %q is not grpc or http/protobuf", envProtocol, protocol)
	}
	if p.endpoint, err = o.endpoint(p.grpc); err != nil {
		faults = append(faults, err)
	}
	if p.sampler, err = samplerOf(o.Getenv(envSampler), o.Getenv(envSamplerArg)); err != nil {
		faults = append(faults, err)
	}
	p.queue, err = strconv.Atoi(cmp.Or(o.Getenv(envQueue), strconv.Itoa(sdktrace.DefaultMaxQueueSize)))
	if err != nil || p.queue < 1 || p.queue > mostQueued {
		wrong("%s: %q is not a number of spans from 1 to %d", envQueue, o.Getenv(envQueue), mostQueued)
	}
	return p, errors.Join(append(faults, checkVariables(o.Getenv, p.grpc)...)...)
}

// endpoint returns the URL that the exporter needs. Over HTTP that of a collector has the path of traces
// behind it, as with the variable.
func (o Options) endpoint(grpc bool) (string, error) {
	if o.Endpoint == "" {
		return "", nil
	}
	u, err := url.Parse(o.Endpoint)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return "", fmt.Errorf("otlp_endpoint: %q is not a URL such as http://localhost:4318", o.Endpoint)
	}
	if grpc {
		return u.String(), nil
	}
	return u.JoinPath("v1/traces").String(), nil
}

// samplerOf returns the sampler of a name and its argument; empty: every span whose parent is recorded, and
// every one without a parent.
func samplerOf(name, arg string) (sdktrace.Sampler, error) {
	base, parent := strings.CutPrefix(cmp.Or(name, "parentbased_always_on"), "parentbased_")
	var s sdktrace.Sampler
	switch base {
	case "always_on":
		s = sdktrace.AlwaysSample()
	case "always_off":
		s = sdktrace.NeverSample()
	case "traceidratio":
		ratio, err := strconv.ParseFloat(cmp.Or(arg, "1"), 64)
		if err != nil || !(ratio >= 0 && ratio <= 1) {
			return nil, fmt.Errorf("%s: %q is not a ratio from 0 to 1", envSamplerArg, arg)
		}
		s = sdktrace.TraceIDRatioBased(ratio)
	default:
		return nil, fmt.Errorf("%s: %q is not always_on, always_off or traceidratio, or one of them behind parentbased_",
			envSampler, name)
	}
	if parent {
		s = sdktrace.ParentBased(s)
	}
	return s, nil
}
