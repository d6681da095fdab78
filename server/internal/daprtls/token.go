package daprtls

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	sentryv1 "github.com/carillonhq/carillon/api/dapr/proto/sentry/v1"
)

// tokenFileVariable names a file with a token, as in Dapr.
const tokenFileVariable = "DAPR_SENTRY_TOKEN_FILE"

// serviceAccountTokens are where a pod finds its token: the one meant for sentry, which Dapr's chart mounts,
// then the general one, which older charts rely on.
var serviceAccountTokens = []string{
	"/var/run/secrets/dapr.io/sentrytoken/token",
	"/var/run/secrets/kubernetes.io/serviceaccount/token",
}

// token is what proves to sentry who is asking, and how sentry is to judge it. It is read for every request,
// because tokens are short-lived files. None at all is for sentry to judge as well.
func (o Sentry) token() (string, sentryv1.SignCertificateRequest_TokenValidator, error) {
	if path := cmp.Or(o.TokenFile, os.Getenv(tokenFileVariable)); path != "" {
		validator := sentryv1.SignCertificateRequest_JWKS
		if o.Kubernetes {
			validator = sentryv1.SignCertificateRequest_KUBERNETES
		}
		token, err := readToken(path)
		return token, validator, err
	}
	if !o.Kubernetes {
		return "", sentryv1.SignCertificateRequest_UNKNOWN, nil
	}
	for _, path := range serviceAccountTokens {
		token, err := readToken(path)
		if !errors.Is(err, fs.ErrNotExist) {
			return token, sentryv1.SignCertificateRequest_KUBERNETES, err
		}
	}
	return "", sentryv1.SignCertificateRequest_UNKNOWN, nil
}

// refused says what sentry answered, and that it was shown no token where one was to be expected.
func (o Sentry) refused(token string, err error) error {
	if o.Kubernetes && token == "" && status.Code(err) == codes.PermissionDenied {
		return fmt.Errorf("sentry at %s, shown no token because neither %s is there: %w", o.Address,
			strings.Join(serviceAccountTokens, " nor "), err)
	}
	return fmt.Errorf("sentry at %s: %w", o.Address, err)
}

func readToken(path string) (string, error) {
	raw, err := os.ReadFile(path) //nolint:gosec // the operator says where the token is, by flag or environment
	if err != nil {
		return "", fmt.Errorf("token to show to sentry: %w", err)
	}
	token := strings.TrimSpace(string(raw)) // an editor's line end is no part of it
	if token == "" {
		return "", fmt.Errorf("token to show to sentry: %s is empty", path)
	}
	return token, nil
}
