package client

import (
	"net"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// TestNoCallIsRepeatedForEver: a connection that is there and carries no call is not waited for after the time
// that a call may be repeated in.
func TestNoCallIsRepeatedForEver(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	defer server.Stop()
	go server.Serve(l) //nolint:errcheck // it ends when it is stopped
	conn, err := grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if !connected(t.Context(), conn, time.Now().Add(time.Minute)) {
		t.Fatal("not connected")
	}
	if connected(t.Context(), conn, time.Now()) {
		t.Error("the time is over, and it may be repeated")
	}
}
