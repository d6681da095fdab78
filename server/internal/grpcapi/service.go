package grpcapi

import (
	"cmp"
	"context"

	"github.com/carillonhq/carillon"
	pb "github.com/carillonhq/carillon/api/carillon/v1"
	"github.com/carillonhq/carillon/internal/wire"
)

// Service is carillon.v1.SchedulerService over a Scheduler. It judges the form of a request; what it means is
// judged by the Scheduler.
type Service struct {
	pb.UnsafeSchedulerServiceServer // a new call fails to compile until it is here

	scheduler carillon.Scheduler
	options   Options
}

var _ pb.SchedulerServiceServer = (*Service)(nil)

// NewService is the service over s.
func NewService(s carillon.Scheduler, o Options) *Service {
	return &Service{scheduler: s, options: o.withDefaults()}
}

// GetNamespace implements the rpc.
func (s *Service) GetNamespace(ctx context.Context, m *pb.GetNamespaceRequest) (*pb.Namespace, error) {
	ns, err := s.scheduler.GetNamespace(ctx, namespace(m.GetName()))
	return wire.NamespaceToProto(&ns), err
}

// ListNamespaces implements the rpc.
func (s *Service) ListNamespaces(ctx context.Context,
	m *pb.ListNamespacesRequest) (*pb.ListNamespacesResponse, error) {
	page, err := s.scheduler.ListNamespaces(ctx, wire.NamespaceQueryFromProto(m))
	return wire.NamespacePageToProto(page), err
}

// PutNamespace implements the rpc.
func (s *Service) PutNamespace(ctx context.Context, m *pb.PutNamespaceRequest) (*pb.Namespace, error) {
	n, err := wire.NamespaceFromProto(m)
	if err != nil {
		return nil, err
	}
	n.Name = namespace(n.Name)
	ns, err := s.scheduler.PutNamespace(ctx, n)
	return wire.NamespaceToProto(&ns), err
}

// invalid returns an error of the kind InvalidArgument.
func invalid(field, format string, args ...any) *carillon.Error {
	return carillon.Errorf(carillon.InvalidArgument, field, format, args...)
}

// namespace returns ns or the default one.
func namespace(ns string) string { return cmp.Or(ns, carillon.DefaultNamespace) }

// aboutJob is a request that names a job.
type aboutJob interface {
	GetNamespace() string
	GetName() string
}

// onJob makes a call about the job that a request names.
func onJob[T any](ctx context.Context, m aboutJob, call func(context.Context, carillon.Key) (T, error)) (v T,
	err error) {
	k, err := key(m.GetNamespace(), m.GetName())
	if err != nil {
		return v, err
	}
	return call(ctx, k)
}

// key is the key that a request names; its name must be given.
func key(ns, name string) (carillon.Key, error) {
	if name == "" {
		return carillon.Key{}, invalid("name", "must not be empty")
	}
	return carillon.Key{Namespace: namespace(ns), Name: name}, nil
}

// place gives the job in a request the namespace and the name that the request has outside of it, or the
// default namespace. Where both say something they must agree. The status is the server's word: what a caller
// sends back of it is ignored.
func place(j *pb.Job, ns, name string) error {
	j.Status = nil
	if err := agree(&j.Namespace, ns, "namespace"); err != nil {
		return err
	}
	j.Namespace = namespace(j.Namespace)
	return agree(&j.Name, name, "name")
}

func agree(inside *string, outside, field string) error {
	switch {
	case outside == "" || *inside == outside:
		return nil
	case *inside == "":
		*inside = outside
		return nil
	}
	return invalid(field, "is %.64q in the job and %.64q in the request; leave one of them out",
		*inside, outside)
}
