package daprtls

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"

	"github.com/spiffe/go-spiffe/v2/bundle/x509bundle"
	"github.com/spiffe/go-spiffe/v2/spiffetls/tlsconfig"
	"github.com/spiffe/go-spiffe/v2/svid/x509svid"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	sentryv1 "github.com/carillonhq/carillon/api/dapr/proto/sentry/v1"
)

// sign has sentry certify a new key. Sentry proves itself by its certificate: the trust anchors must vouch
// for it, and it must name Dapr's sentry in the control plane.
func (o Sentry) sign(ctx context.Context, anchors x509bundle.Source) (*signed, error) {
	id, err := o.id("dapr-sentry")
	if err != nil {
		return nil, err
	}
	key, request, err := o.request()
	if err != nil {
		return nil, err
	}
	config := tlsconfig.TLSClientConfig(anchors, tlsconfig.AuthorizeID(id))
	options := []grpc.DialOption{grpc.WithTransportCredentials(credentials.NewTLS(config)),
		grpc.WithDisableServiceConfig()}
	if o.dial != nil {
		options = append(options, grpc.WithContextDialer(o.dial))
	}
	conn, err := grpc.NewClient(o.Address, options...)
	if err != nil {
		return nil, fmt.Errorf("sentry_address %s: %w", o.Address, err)
	}
	defer conn.Close()
	answer, err := sentryv1.NewCAClient(conn).SignCertificate(ctx, request)
	if err != nil {
		return nil, o.refused(request.Token, err)
	}
	got := &signed{cert: answer.WorkloadCertificate, key: key}
	if got.svid, err = o.judge(got, anchors); err != nil {
		return nil, fmt.Errorf("sentry at %s signed a certificate that cannot be used: %w", o.Address, err)
	}
	return got, nil
}

// request makes a key (PEM), and what asks sentry to certify it.
func (o Sentry) request() ([]byte, *sentryv1.SignCertificateRequest, error) {
	token, validator, err := o.token()
	if err != nil {
		return nil, nil, err
	}
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, nil, err
	}
	csr, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
	if err != nil {
		return nil, nil, err
	}
	request := &sentryv1.SignCertificateRequest{
		Id: AppID, Namespace: o.Namespace, TrustDomain: o.TrustDomain, Token: token, TokenValidator: validator,
		CertificateSigningRequest: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: csr}),
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER}), request, nil
}

// judge refuses an identity that no sidecar would accept.
func (o Sentry) judge(got *signed, anchors x509bundle.Source) (*x509svid.SVID, error) {
	svid, err := identity(got.cert, got.key)
	if err != nil {
		return nil, err
	}
	want, err := o.id(AppID)
	if err != nil {
		return nil, err
	}
	if svid.ID != want {
		return nil, fmt.Errorf("it is for %s, and sidecars accept %s only", svid.ID, want)
	}
	_, _, err = x509svid.Verify(svid.Certificates, anchors)
	return svid, err
}
