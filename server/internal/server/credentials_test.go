package server_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"math/big"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/carillonhq/carillon"
	pb "github.com/carillonhq/carillon/api/carillon/v1"
	"github.com/carillonhq/carillon/server/internal/daprtls"
	"github.com/carillonhq/carillon/server/internal/server"
	"github.com/carillonhq/carillon/server/internal/testing/realserver"
	"github.com/carillonhq/carillon/server/store"
)

// authority signs for workloads of the tests.
type authority struct {
	t    *testing.T
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{t: t}
	shape := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	var err error
	if a.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificate(rand.Reader, shape, shape, a.key.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	return a
}

// identity signs for a workload and returns the files of its identity.
func (a *authority) identity(path string) daprtls.Files {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	shape := &x509.Certificate{SerialNumber: big.NewInt(2), NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageDigitalSignature,
		URIs: []*url.URL{{Scheme: "spiffe", Host: "cluster.local", Path: path}}}
	cert, err := x509.CreateCertificate(rand.Reader, shape, a.cert, key.Public(), a.key)
	if err != nil {
		a.t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		a.t.Fatal(err)
	}
	dir := a.t.TempDir()
	write := func(name, kind string, der []byte) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
			a.t.Fatal(err)
		}
		return file
	}
	return daprtls.Files{Cert: write("cert", "CERTIFICATE", cert), Key: write("key", "PRIVATE KEY", private),
		CA: write("ca", "CERTIFICATE", a.cert.Raw)}
}

// credentials are those of a node.
func (a *authority) credentials() *server.Credentials {
	a.t.Helper()
	s, err := daprtls.FromFiles(a.identity("/ns/dapr-system/dapr-scheduler"))
	if err != nil {
		a.t.Fatal(err)
	}
	a.t.Cleanup(s.Close)
	return &server.Credentials{Server: s.NodeServerOptions(), Dial: s.NodeDialOptions(), Ready: s.Ready}
}

// TestNodesWithCredentials: nodes with certificates pass calls on to each other, nobody else gets in, and a node
// without is refused.
func TestNodesWithCredentials(t *testing.T) {
	a := newAuthority(t)
	c := server.Config{Partitions: 16, Store: realserver.StartPostgres(t, realserver.Volatile()...).Database(t)}
	var all []*server.Server
	for i := range 3 {
		c.Name, c.Credentials = fmt.Sprint("node-", i), a.credentials()
		all = append(all, serve(t, c))
	}
	spread(t, all[0], 3)
	for i, s := range all {
		seen := map[int]bool{}
		for n := 0; len(seen) < c.Partitions; n++ {
			name := fmt.Sprintf("of-%d/%d", i, n)
			seen[store.PartitionOf(carillon.Key{Namespace: carillon.DefaultNamespace, Name: name}, c.Partitions)] = true
			_, err := s.Scheduler().PutJob(t.Context(), carillon.Job{Name: name, Target: carillon.WorkerQueue(queue),
				Due: carillon.In(time.Hour)})
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
	}
	for what, creds := range map[string]credentials.TransportCredentials{
		"plain text": insecure.NewCredentials(),
		"a sidecar":  a.sidecar(),
	} {
		conn, err := grpc.NewClient(all[0].GRPCAddr(), grpc.WithTransportCredentials(creds))
		if err != nil {
			t.Fatal(err)
		}
		_, err = pb.NewSchedulerServiceClient(conn).ListJobs(t.Context(), &pb.ListJobsRequest{Namespace: "default"})
		if status.Code(err) != codes.Unavailable || strings.Contains(err.Error(), "Unimplemented") {
			t.Errorf("%s: %v", what, err)
		}
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
	}
	c.Name, c.Credentials = "plain", nil
	c.GRPC, c.HTTP = "127.0.0.1:0", server.None
	if s, err := server.New(c); err == nil || !strings.Contains(err.Error(), "started with TLS between nodes false") {
		t.Errorf("a node without credentials: %v, %v", s, err)
	}
}

// sidecar connects as an app of the control plane's namespace.
func (a *authority) sidecar() credentials.TransportCredentials {
	a.t.Helper()
	f := a.identity("/ns/dapr-system/orders")
	pair, err := tls.LoadX509KeyPair(f.Cert, f.Key)
	if err != nil {
		a.t.Fatal(err)
	}
	return credentials.NewTLS(&tls.Config{Certificates: []tls.Certificate{pair}, InsecureSkipVerify: true})
}

// TestWithCredentialsANodeMayBeReached: from other machines, without insecure; so may nothing else of it.
func TestWithCredentialsANodeMayBeReached(t *testing.T) {
	c := server.Config{Store: "redis://h", GRPC: "0.0.0.0:7070", Advertise: "10.0.0.7",
		Credentials: &server.Credentials{}}
	if err := c.Validate(); err != nil {
		t.Error(err)
	}
	c.HTTP = "0.0.0.0:7080"
	if err := c.Validate(); err == nil || strings.Contains(err.Error(), "grpc") ||
		!strings.Contains(err.Error(), "http: ") {
		t.Errorf("HTTP: %v", err)
	}
}

// TestCredentialsThatAreNone: a node is not started that would let everybody in.
func TestCredentialsThatAreNone(t *testing.T) {
	whole := newAuthority(t).credentials()
	for what, c := range map[string]server.Credentials{"nothing": {}, "no listener": {Dial: whole.Dial},
		"no connections": {Server: whole.Server}} {
		s, err := server.New(server.Config{Store: "memory:", Partitions: 2, GRPC: "127.0.0.1:0", HTTP: server.None,
			Credentials: &c})
		if err == nil || !strings.Contains(err.Error(), "it would be plain text") {
			t.Errorf("%s: %v, %v", what, s, err)
		}
	}
}

// TestANodeWaitsForItsCertificate: it does not join before the others can reach it, and says why.
func TestANodeWaitsForItsCertificate(t *testing.T) {
	var there atomic.Bool
	log := &lines{}
	begun := make(chan *server.Server, 1)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	known := newAuthority(t).credentials()
	known.Ready = func() error {
		if there.Load() {
			return nil
		}
		return errors.New("sentry is away")
	}
	go func() {
		s, err := server.Await(ctx, server.Config{Store: "memory:", Partitions: 2, GRPC: "127.0.0.1:0",
			HTTP: server.None, DrainGrace: -1, Log: slog.New(slog.NewTextHandler(log, nil)), Credentials: known})
		if err == nil {
			begun <- s
			err = s.Run(ctx)
		}
		ended <- err
	}()
	eventually(t, "it waits", func() bool {
		return log.containing("waiting for a certificate")*log.containing("sentry is away") > 0
	})
	select {
	case <-begun:
		t.Fatal("it has begun")
	default:
	}
	there.Store(true)
	await(t, begun)
	if log.containing("a certificate is there") != 1 {
		t.Error("the log does not say that the wait is over")
	}
	cancel()
	if err := await(t, ended); err != nil {
		t.Error(err)
	}
}
