package peer_test

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/carillonhq/carillon"
	peerv1 "github.com/carillonhq/carillon/api/carillon/peer/v1"
	pb "github.com/carillonhq/carillon/api/carillon/v1"
	"github.com/carillonhq/carillon/server/internal/cluster"
	"github.com/carillonhq/carillon/server/internal/delivery"
	"github.com/carillonhq/carillon/server/internal/message"
	"github.com/carillonhq/carillon/server/internal/peer"
)

// newer adds a field of a later version to a message.
func newer(m proto.Message) {
	m.ProtoReflect().SetUnknown(protowire.AppendVarint(protowire.AppendTag(nil, 4711, protowire.VarintType), 1))
}

// extend is a connection that makes requests and answers look as if a later version had written them.
func extend(requests, answers bool, into func(m proto.Message)) grpc.DialOption {
	return grpc.WithChainUnaryInterceptor(func(ctx context.Context, method string, req, reply any,
		cc *grpc.ClientConn, invoke grpc.UnaryInvoker,
		opts ...grpc.CallOption) error {
		if m, ok := req.(proto.Message); ok && requests && !strings.HasSuffix(method, "Status") {
			into(m)
		}
		err := invoke(ctx, method, req, reply, cc, opts...)
		if m, ok := reply.(proto.Message); ok && answers {
			raw, _ := proto.Marshal(m)
			_ = proto.Unmarshal(protowire.AppendVarint(protowire.AppendTag(raw, 4711, protowire.VarintType), 1), m)
		}
		return err
	})
}

// TestALaterVersionAsks: a request with an unknown field, at any depth, is refused with the field's number,
// and is certainly not carried out.
func TestALaterVersionAsks(t *testing.T) {
	done := false
	n := &node{
		put: func(context.Context, message.PutJob) (carillon.PutResult, error) {
			done = true
			return carillon.PutResult{}, nil
		},
		relay: func(message.RelayReports) (message.RelayResult, error) {
			done = true
			return message.RelayResult{}, nil
		},
	}
	inForwarded := func(m proto.Message) {
		f, ok := m.(*peerv1.ForwardRequest)
		if !ok {
			t.Fatalf("%T", m)
		}
		var put pb.PutJobRequest
		if err := proto.Unmarshal(f.GetMessage(), &put); err != nil {
			t.Fatal(err)
		}
		newer(put.GetJob())
		f.Message, _ = proto.Marshal(&put)
	}
	inReport := func(m proto.Message) { newer(m.(*peerv1.HearRequest).GetReports()[0].GetResult()) }
	asksPut := func(c *peer.Client) error {
		_, err := c.PutJob(t.Context(), job())
		return err
	}
	asksHear := func(c *peer.Client) error {
		_, err := message.Send(t.Context(), c, 0, said())
		return err
	}
	for name, c := range map[string]struct {
		into func(m proto.Message)
		ask  func(c *peer.Client) error
		want string
	}{
		"in the request":      {newer, asksPut, "field 4711 of carillon.peer.v1.ForwardRequest"},
		"in a call passed on": {inForwarded, asksPut, "field 4711 of carillon.v1.Job"},
		"deep in a list":      {inReport, asksHear, "field 4711 of carillon.v1.Result"},
		"a method that is not yet": {func(m proto.Message) { m.(*peerv1.ForwardRequest).Method = "FlyToTheMoon" },
			asksPut, "FlyToTheMoon"},
	} {
		t.Run(name, func(t *testing.T) {
			client, _ := serve(t, n, peer.Options{Dial: []grpc.DialOption{extend(true, false, c.into)}})
			err := c.ask(client)
			e, ok := errors.AsType[*carillon.Error](err)
			if !ok || e.Kind != carillon.Unavailable || e.Unknown || !errors.Is(err, cluster.ErrOlder) ||
				!strings.Contains(e.Message, c.want) {
				t.Errorf("got %v", err)
			}
			if done {
				t.Error("it was done")
			}
		})
	}
}

// said returns a report.
func said() message.RelayReports {
	return message.RelayReports{Reports: []delivery.Report{{Result: carillon.Result{Token: "t", RunID: "r",
		Outcome: carillon.OutcomeSuccess}}}}
}

// TestALaterVersionAnswers: unknown fields in an answer are ignored.
func TestALaterVersionAnswers(t *testing.T) {
	n := &node{relay: func(message.RelayReports) (message.RelayResult, error) {
		return message.RelayResult{Accepted: []string{"t"}}, nil
	}}
	c, _ := serve(t, n, peer.Options{Dial: []grpc.DialOption{extend(false, true, nil)}})
	heard, err := message.Send(t.Context(), c, 0, said())
	if err != nil || !reflect.DeepEqual(heard, message.RelayResult{Accepted: []string{"t"}}) {
		t.Errorf("heard %+v, %v", heard, err)
	}
}

// TestACallThatIsNotYet: a node that does not know a call at all is reported as older, and has done nothing.
func TestACallThatIsNotYet(t *testing.T) {
	later := grpc.WithChainUnaryInterceptor(func(ctx context.Context, method string, req, reply any,
		cc *grpc.ClientConn, invoke grpc.UnaryInvoker,
		opts ...grpc.CallOption) error {
		return invoke(ctx, strings.Replace(method, "Look", "LookAtTheStars", 1), req, reply, cc, opts...)
	})
	c, _ := serve(t, &node{}, peer.Options{Dial: []grpc.DialOption{later}})
	err := c.Look(t.Context())
	if e, ok := errors.AsType[*carillon.Error](err); !ok || e.Kind != carillon.Unavailable || e.Unknown ||
		!errors.Is(err, cluster.ErrOlder) {
		t.Errorf("got %#v", err)
	}
}
