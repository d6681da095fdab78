package client_test

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"path/filepath"

	"google.golang.org/grpc/credentials"

	"github.com/carillonhq/carillon/client"
)

// A program shows a certificate, and believes nodes that an authority has signed for. The files are read
// again for each connection, so they may be renewed.
func ExampleWithTransportCredentials() {
	connect := func(folder string) (*client.Client, error) {
		text, err := os.ReadFile(filepath.Join(folder, "nodes.pem"))
		if err != nil {
			return nil, err
		}
		roots := x509.NewCertPool()
		if !roots.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("%s/nodes.pem has no certificate", folder)
		}
		return client.Dial("node-1.example,node-2.example", client.WithTransportCredentials(credentials.NewTLS(
			&tls.Config{
				MinVersion: tls.VersionTLS12,
				RootCAs:    roots,
				GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
					pair, err := tls.LoadX509KeyPair(filepath.Join(folder, "me.pem"), filepath.Join(folder, "me-key.pem"))
					return &pair, err
				},
			})))
	}
	_, err := connect("/nowhere")
	fmt.Println(err)
	// Output: open /nowhere/nodes.pem: no such file or directory
}
