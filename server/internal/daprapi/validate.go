package daprapi

import (
	"context"
	"strings"
	"unicode"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/access"
	"github.com/carillonhq/carillon/server/internal/daprapi/daprmetrics"
	"github.com/carillonhq/carillon/server/internal/daprrecord"
)

// claim checks that a caller says who it is, and may be that. If it may not, that is recorded: m is what it
// asks for. A caller that says nothing is no such caller: its request is wrong.
func (s *Service) claim(ctx context.Context, method, appID string, m access.Named) error {
	namespace := m.Namespace
	if namespace == "" || appID == "" {
		s.options.Metrics.Count(daprmetrics.SidecarErrors, daprmetrics.ErrorAuth)
		return status.Error(codes.InvalidArgument, "missing namespace or appID in request")
	}
	if s.options.Authorize != nil {
		if err := s.options.Authorize(ctx, namespace, appID); err != nil {
			s.options.Metrics.Count(daprmetrics.SidecarErrors, daprmetrics.ErrorAuth)
			s.refused(ctx, method, m, err)
			return err
		}
	}
	return nil
}

// address is a job's metadata after the checks that every call makes of its caller.
type address struct{ daprrecord.Address }

// unkept reports whether Carillon keeps no job of that name, or of a name that begins so: it is nobody's, or
// too long when it is escaped.
func (a address) unkept(name string) bool {
	return a.Nowhere() || len(a.Key(name).Name) > carillon.MaxName
}

// maxKey is the most bytes of a job's key as Dapr's scheduler writes it.
const maxKey = 512

// check holds a job's key to the rules of Dapr's scheduler, and its namespace to Carillon's, which is that of
// Kubernetes. name is the job's, or what names begin with.
func (a address) check(field, name string) error {
	for _, part := range [...]struct{ field, text string }{
		{"metadata.namespace", a.Namespace},
		{"metadata.app_id", a.Target.AppID},
		{"metadata.target.actor.type", a.Target.ActorType},
		{"metadata.target.actor.id", a.Target.ActorID},
		{field, name},
	} {
		if part.field == "metadata.app_id" && a.Reminder {
			continue // it is no part of a reminder's key
		}
		if err := checkCharacters(part.field, part.text); err != nil {
			return err
		}
	}
	if n := len(a.InDapr(name)); n > maxKey {
		return refuse(field, "with namespace and target it has %d bytes, more than %d", n, maxKey)
	}
	return a.checkNamespace()
}

// checkCharacters refuses what no part of a key may have.
func checkCharacters(field, text string) error {
	if strings.ContainsAny(text, `/\#?`) {
		return refuse(field, `%q has one of / \ # ?, which no name may have`, clip(text))
	}
	if strings.ContainsFunc(text, unicode.IsControl) {
		return refuse(field, "%q has a control character", clip(text))
	}
	return nil
}

// checkNamespace holds the namespace to Carillon's rule.
func (a address) checkNamespace() error {
	return carillon.WithField(carillon.ValidateNamespace(a.Namespace), "metadata.namespace")
}

// clip keeps messages short.
func clip(text string) string {
	const most = 100
	if len(text) > most {
		return strings.ToValidUTF8(text[:most], "") + "…"
	}
	return text
}
