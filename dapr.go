package carillon

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// DaprTarget delivers to Dapr sidecars: those of an app, or, for an actor reminder, those of any app that
// hosts the actor type. Jobs that were put through Dapr's Scheduler protocol have it (docs/dapr.md), and
// their names begin with [DaprTarget.Prefix].
type DaprTarget struct {
	AppID          string // the app of the job; for an actor reminder, the app that asked for it
	ActorType      string // of an actor reminder; empty for a job of an app
	ActorID        string // likewise
	ConcurrencyKey string // runs that share it can have limits besides the actor type's
}

// DaprPrefix begins the names of the jobs that have a [DaprTarget], and of no others.
const DaprPrefix = "dapr/"

// Prefix returns what the names of the target's jobs begin with: dapr/app/APP/ or dapr/actor/TYPE/ID/.
func (t *DaprTarget) Prefix() string {
	if t.ActorType == "" {
		return DaprPrefix + "app/" + EscapeLevel(t.AppID) + "/"
	}
	return DaprPrefix + "actor/" + EscapeLevel(t.ActorType) + "/" + EscapeLevel(t.ActorID) + "/"
}

// Address returns where the target's runs wait for a sidecar: app/APP or actor/TYPE.
func (t *DaprTarget) Address() string {
	if t.ActorType == "" {
		return "app/" + t.AppID
	}
	return "actor/" + t.ActorType
}

// EscapeLevel writes any text as one level of a job's name, or as the beginning of one. Characters that a
// name must not have are percent-encoded, and so is a leading dot, as "." and ".." are no levels. Escaping
// keeps prefixes: a text that begins with s is escaped to one that begins with EscapeLevel(s).
func EscapeLevel(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		bad := r == utf8.RuneError && size == 1 || !unicode.IsPrint(r) || strings.ContainsRune("%:/", r)
		if bad || (i == 0 && r == '.') {
			for _, c := range []byte(s[i : i+size]) {
				fmt.Fprintf(&b, "%%%02X", c)
			}
		} else {
			b.WriteRune(r)
		}
		i += size
	}
	return b.String()
}

// checkNameOf checks a job's name against its target: names under [DaprPrefix] belong to Dapr's jobs.
func (t *DaprTarget) checkNameOf(name string) error {
	switch {
	case t == nil && strings.HasPrefix(name, DaprPrefix):
		return Errorf(InvalidArgument, "name", "%q begins with %q, which is kept for jobs with a target of kind dapr", clip(name), DaprPrefix)
	case t != nil && (!strings.HasPrefix(name, t.Prefix()) || strings.Contains(name[len(t.Prefix()):], "/")):
		return Errorf(InvalidArgument, "name", "%q is not %q and one level, as the target asks for", clip(name), clip(t.Prefix()))
	}
	return nil
}

func (t *DaprTarget) check() error {
	for _, f := range [...]struct{ name, value string }{
		{"app_id", t.AppID}, {"actor_type", t.ActorType}, {"actor_id", t.ActorID}, {"concurrency_key", t.ConcurrencyKey},
	} {
		if len(f.value) > MaxName {
			return tooLarge("target.dapr."+f.name, len(f.value), MaxName)
		}
		if !utf8.ValidString(f.value) || strings.ContainsFunc(f.value, unicode.IsControl) {
			return Errorf(InvalidArgument, "target.dapr."+f.name, "%q has a control character or is not UTF-8", clip(f.value))
		}
	}
	switch {
	case t.AppID == "":
		return Errorf(InvalidArgument, "target.dapr.app_id", "it is missing")
	case (t.ActorType == "") != (t.ActorID == ""):
		return Errorf(InvalidArgument, "target.dapr.actor_id", "an actor reminder has both actor_type and actor_id, a job of an app neither")
	}
	return nil
}
