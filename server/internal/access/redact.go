package access

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/carillonhq/carillon"
	pb "github.com/carillonhq/carillon/api/carillon/v1"
	"github.com/carillonhq/carillon/internal/secretref"
)

// Redact replaces the credentials in a reply that the caller in ctx may read, but not write: the values of
// headers of the jobs in it, for who may not put jobs there, and of webhooks, for who is no admin there. Who
// may write a job needs the values, since he puts it as a whole.
func (g *Gate) Redact(ctx context.Context, reply any) {
	p := From(ctx)
	if p == nil {
		return
	}
	switch m := reply.(type) {
	case *pb.Job:
		p.redactJob(m)
	case *pb.ListJobsResponse:
		for _, j := range m.GetJobs() {
			p.redactJob(j)
		}
	case *pb.Namespace:
		p.redactWebhooks(m)
	case *pb.ListNamespacesResponse:
		for _, n := range m.GetNamespaces() {
			p.redactWebhooks(n)
		}
	}
}

func (p *Principal) redactJob(j *pb.Job) {
	if h := j.GetTarget().GetHttp(); len(h.GetHeaders()) > 0 && !p.may(store.roles, j.GetNamespace(), "") {
		h.Headers = redacted(h.GetHeaders())
	}
}

func (p *Principal) redactWebhooks(n *pb.Namespace) {
	if p.may(administer.roles, n.GetName(), "") {
		return
	}
	for _, w := range n.GetWebhooks() {
		w.Headers = redacted(w.GetHeaders())
	}
}

// redacted returns headers with what looks like a credential replaced. The map that is given stays as it is:
// it may be that of a job in memory.
func redacted(headers map[string]string) map[string]string {
	shown := maps.Clone(headers)
	for name, value := range shown {
		if credential(name, value) {
			shown[name] = carillon.Redacted
		}
	}
	return shown
}

// Words in the names of headers whose values are credentials, in lower case.
var credentialNames = []string{"auth", "cookie", "token", "secret", "pass", "pwd", "key", "credential",
	"session", "signature", "jwt", "otp", "access", "bearer", "private"}

// The beginnings of values that are credentials, in lower case: schemes of Authorization (RFC 9110, 11.1),
// and what well-known issuers write before what they issue.
var credentialValues = []string{"basic ", "bearer ", "digest ", "negotiate ", "token ", "apikey ",
	"aws4-hmac-sha256 ", "ck_", "eyj", "ghp_", "gho_", "ghs_", "github_pat_", "glpat-", "sk-", "sk_", "rk_",
	"xox", "akia", "ya29.", "whsec_", "dckr_pat_", "npm_", "hvs."}

// credential reports whether a header looks like a credential. A reference to a secret is none.
func credential(name, value string) bool {
	if _, isRef, _ := secretref.Parse(value); isRef || value == "" {
		return false
	}
	name, value = strings.ToLower(name), strings.ToLower(value)
	named := func(word string) bool { return strings.Contains(name, word) }
	begins := func(start string) bool { return strings.HasPrefix(value, start) }
	return slices.ContainsFunc(credentialNames, named) || slices.ContainsFunc(credentialValues, begins)
}
