package tracing

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
)

// The SDK logs a variable that it cannot read, with its value, and goes on without: to another host, without
// a certificate. So they are checked before it reads them.

// numbers are the variables that are whole numbers, with the least that makes sense: 1, or -1 for no
// limit. Times are in ms.
var numbers = map[string]int{
	"OTEL_BSP_SCHEDULE_DELAY": 1, "OTEL_BSP_EXPORT_TIMEOUT": 1, "OTEL_BSP_MAX_EXPORT_BATCH_SIZE": 1,
	"OTEL_EXPORTER_OTLP_TIMEOUT": 1, "OTEL_EXPORTER_OTLP_TRACES_TIMEOUT": 1,
	"OTEL_ATTRIBUTE_COUNT_LIMIT": -1, "OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT": -1,
	"OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT": -1, "OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT": -1,
	"OTEL_SPAN_EVENT_COUNT_LIMIT": -1, "OTEL_SPAN_LINK_COUNT_LIMIT": -1,
	"OTEL_EVENT_ATTRIBUTE_COUNT_LIMIT": -1, "OTEL_LINK_ATTRIBUTE_COUNT_LIMIT": -1,
}

// mostNumber bounds them all: 24 h in ms.
const mostNumber = 24 * 60 * 60 * 1000

// checkVariables returns what is wrong with variables that the SDK reads itself. Empty ones are not set. No
// fault has a header's value, which may be a credential.
func checkVariables(getenv func(string) string, grpc bool) (faults []error) {
	for _, name := range slices.Sorted(maps.Keys(numbers)) {
		least := numbers[name]
		if text := getenv(name); text != "" {
			if n, err := strconv.Atoi(text); err != nil || n < least || n > mostNumber {
				faults = append(faults, fmt.Errorf("%s: %q is not a whole number from %d to %d", name, text, least, mostNumber))
			}
		}
	}
	for _, prefix := range []string{"OTEL_EXPORTER_OTLP_", "OTEL_EXPORTER_OTLP_TRACES_"} {
		for _, name := range slices.Sorted(maps.Keys(exportChecks)) {
			if text := getenv(prefix + name); text != "" {
				if err := exportChecks[name](text); err != nil {
					faults = append(faults, fmt.Errorf("%s%s: %w", prefix, name, err))
				}
			}
		}
		if text := getenv(prefix + "ENDPOINT"); text != "" {
			if err := checkEndpoint(text, grpc); err != nil {
				faults = append(faults, fmt.Errorf("%sENDPOINT: %w", prefix, err))
			}
		}
		cert, key := getenv(prefix+"CLIENT_CERTIFICATE"), getenv(prefix+"CLIENT_KEY")
		if err := checkPair(cert, key); err != nil {
			faults = append(faults, fmt.Errorf("%sCLIENT_CERTIFICATE and %sCLIENT_KEY: %w", prefix, prefix, err))
		}
	}
	return faults
}

// exportChecks check variables of the export, which are there for all signals and for traces.
var exportChecks = map[string]func(text string) error{
	"HEADERS":     checkHeaders,
	"COMPRESSION": func(text string) error { return oneOf(text, "gzip", "none") },
	"INSECURE":    func(text string) error { return oneOf(strings.ToLower(text), "true", "false") },
	"CERTIFICATE": checkRoots,
}

func oneOf(text string, a, b string) error {
	if text != a && text != b {
		return fmt.Errorf("%q is neither %s nor %s", text, a, b)
	}
	return nil
}

// checkEndpoint wants a URL with a scheme: the SDK takes what stands before the first colon for one.
func checkEndpoint(text string, grpc bool) error {
	u, err := url.Parse(text)
	switch {
	case err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != "":
		return nil
	case err == nil && grpc && u.Scheme == "unix":
		return nil
	}
	return fmt.Errorf("%q is not a URL such as http://localhost:4318", text)
}

// checkHeaders wants name=value,…, whose values are encoded as in a URL.
func checkHeaders(text string) error {
	for i, pair := range strings.Split(text, ",") {
		name, value, ok := strings.Cut(pair, "=")
		if name = strings.TrimSpace(name); !ok || !isToken(name) {
			return fmt.Errorf("pair %d is not name=value", i+1)
		}
		if _, err := url.PathUnescape(strings.TrimSpace(value)); err != nil {
			return fmt.Errorf("the value of %q is not encoded as in a URL: write %%25 for %%", name)
		}
	}
	return nil
}

// isToken reports whether text may be the name of a header.
func isToken(text string) bool {
	for i := range len(text) {
		c := text[i]
		if !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' ||
			strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0) {
			return false
		}
	}
	return text != ""
}

// checkRoots wants a file of certificates.
func checkRoots(file string) error {
	pem, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	if !x509.NewCertPool().AppendCertsFromPEM(pem) {
		return fmt.Errorf("%s has no certificate in PEM", file)
	}
	return nil
}

// checkPair wants the files of a certificate and its key, or neither.
func checkPair(cert, key string) error {
	switch {
	case cert == "" && key == "":
		return nil
	case cert == "" || key == "":
		return errors.New("one of them is missing")
	}
	_, err := tls.LoadX509KeyPair(cert, key)
	return err
}
