package grpcapi

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/internal/wire"
)

// unary is around every unary call of the gRPC server.
func (s *Service) unary(ctx context.Context, req any, info *grpc.UnaryServerInfo,
	handler grpc.UnaryHandler) (any, error) {
	began := time.Now()
	var reply any
	ctx, err := s.identify(ctx, info.FullMethod)
	if err == nil {
		reply, err = s.guarded(wire.Incoming(ctx), req, info, handler)
	}
	err = ToStatus(err)
	s.options.observe(info.FullMethod, err, func(o Observer, api, method, code string) {
		o.Called(api, method, code, time.Since(began))
	})
	return reply, err
}

// guarded is [Service.Guard] for what is known.
func (s *Service) guarded(ctx context.Context, req any, info *grpc.UnaryServerInfo,
	handler grpc.UnaryHandler) (any, error) {
	if err := known(info.FullMethod, req); err != nil {
		return nil, err
	}
	return s.Guard(ctx, req, info, handler)
}

// known refuses what a caller of this contract says and this version does not understand. Others on the same
// server, such as sidecars and nodes of other versions, keep to rules of their own. What could not be decoded
// is refused of all.
func known(method string, m any) error {
	message, ok := m.(proto.Message)
	if !ok {
		return nil
	}
	if err := checkReadable(message); err != nil {
		return err
	}
	if !strings.HasPrefix(method, "/"+contract) {
		return nil
	}
	return wire.Known(message)
}

// contract is how the names of its services and messages begin.
const contract = "carillon.v1."

// A strict stream receives only what is known.
type strict struct {
	grpc.ServerStream
	method string
}

// RecvMsg implements [grpc.ServerStream].
func (s strict) RecvMsg(m any) error {
	if err := s.ServerStream.RecvMsg(m); err != nil {
		return err
	}
	return known(s.method, m)
}

// Guard is the interceptor around every unary call, of gRPC and of REST alike: a caller without a deadline
// gets one, a panic becomes an error, and what is nobody's fault but ours is logged. Here is
// judged whether the caller, whose principal is in ctx, may make the call.
func (s *Service) Guard(ctx context.Context, req any, info *grpc.UnaryServerInfo,
	handler grpc.UnaryHandler) (reply any, err error) {
	if err := s.judge(ctx, info.FullMethod, req); err != nil {
		s.refused(ctx, info.FullMethod, req, err)
		return nil, err
	}
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, s.options.CallTimeout)
		defer cancel()
	}
	ctx, end, err := s.audited(ctx, info.FullMethod, req)
	if err != nil {
		return nil, err
	}
	err = Safely(func() (err error) {
		reply, err = handler(ctx, req)
		return err
	})
	if s.options.Access != nil && err == nil {
		s.options.Access.Redact(ctx, reply)
	}
	err = end(reply, err)
	logInternal(ctx, s.options.Logger, info.FullMethod, err)
	return reply, err
}

// stream is around every streaming call of the gRPC server.
func (s *Service) stream(srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo,
	handler grpc.StreamHandler) error {
	ss, end := s.cut(ss, info.FullMethod)
	ctx, err := s.identify(ss.Context(), info.FullMethod)
	if err == nil {
		err = s.GuardStream(srv, strict{bounded{ss, ctx}, info.FullMethod}, info, handler)
	}
	if errors.Is(context.Cause(ss.Context()), errOld) {
		err = errOld
	}
	end()
	err = ToStatus(err)
	s.options.observe(info.FullMethod, err, Observer.Streamed)
	return err
}

// errOld is why a stream is cut.
var errOld = carillon.Errorf(carillon.Unavailable, "", "the stream has become old: call again")

// cut returns the stream with a context that ends when it is too old. The connection is closed when its last
// stream has ended, and takes no new ones before that.
func (s *Service) cut(ss grpc.ServerStream, method string) (grpc.ServerStream, context.CancelFunc) {
	age, grace := s.options.ConnectionAge, s.options.ConnectionGrace
	if age > math.MaxInt64-grace || slices.Contains(s.options.Lasting, method) {
		return ss, func() {}
	}
	ctx, cancel := context.WithTimeoutCause(ss.Context(), age+grace, errOld)
	return bounded{ss, ctx}, cancel
}

// bounded is a stream with a context of its own.
type bounded struct {
	grpc.ServerStream
	ctx context.Context
}

// Context implements [grpc.ServerStream].
func (b bounded) Context() context.Context { return b.ctx }

// GuardStream is around every streaming call, of gRPC and of REST alike, as Guard is around the others.
func (s *Service) GuardStream(srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo,
	handler grpc.StreamHandler) error {
	ss, end := s.judged(ss, info.FullMethod)
	defer end()
	ss, recorded := s.auditedStream(ss, info.FullMethod)
	err := recorded(Safely(func() error { return handler(srv, ss) }))
	if lost := s.lost(ss.Context()); err != nil && lost != nil {
		err = lost
	}
	logInternal(ss.Context(), s.options.Logger, info.FullMethod, err)
	return err
}

// ToStatus makes a status of an error, as calls are answered.
func ToStatus(err error) error {
	if err == nil || FromGRPC(err) {
		return err
	}
	return wire.ErrorToStatus(err)
}

// FromGRPC reports whether an error is what gRPC itself said: about health, reflection, or a stream that is
// gone.
func FromGRPC(err error) bool {
	if _, ours := errors.AsType[*carillon.Error](err); ours {
		return false
	}
	_, ok := status.FromError(err)
	return ok
}

// Safely is f with a panic as an error with its stack. A goroutine that serves one caller must not end the
// process.
func Safely(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	return f()
}

// logInternal logs the cause of an internal error, which the caller is not shown.
func logInternal(ctx context.Context, log *slog.Logger, method string, err error) {
	if err == nil || FromGRPC(err) || wire.ToError(err).Kind != carillon.Internal {
		return
	}
	log.ErrorContext(ctx, "call failed", "method", method, "error", err)
}
