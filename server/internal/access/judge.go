package access

import (
	"slices"
	"strings"

	"github.com/carillonhq/carillon"
)

// Judge returns nil if a principal may make a call of the table with this message. Otherwise the error is
// NotFound, in the words of something that does not exist, where nothing is granted to the principal;
// otherwise PermissionDenied with the role that would do.
func Judge(p *Principal, method string, m any) error {
	r, ok := table[method]
	if !ok {
		return unknown(method)
	}
	d, ok := r.of(m)
	if !ok {
		return unknown(method)
	}
	return p.judge(&d)
}

// unknown refuses a call that the table does not have.
func unknown(method string) error {
	return carillon.Errorf(carillon.PermissionDenied, "", "%s is not open to callers with credentials of --auth", method)
}

// Once reports whether only the first message of a stream is judged.
func Once(method string) bool { return table[method].first }

func (p *Principal) judge(d *demand) error {
	if d.nothing {
		return nil
	}
	if d.anywhere {
		for i := range p.Grants {
			if slices.Contains(d.does.roles, p.Grants[i].Role) {
				return nil
			}
		}
		return denied(d.does, "a namespace", "")
	}
	if len(d.namespaces) == 0 { // its rule has forgotten to say of what
		return denied(d.does, quoted(everywhere), "")
	}
	for _, namespace := range d.namespaces {
		if !p.may(d.does.roles, namespace, "") {
			return p.refuse(d, namespace)
		}
		for _, queue := range d.queues {
			if !p.may(d.does.roles, namespace, queue) {
				return denied(d.does, quoted(namespace), queue)
			}
		}
	}
	return nil
}

// refuse is the error about a namespace in which a demand is not granted.
func (p *Principal) refuse(d *demand, namespace string) error {
	switch {
	case strings.HasSuffix(namespace, everywhere):
		return denied(d.does, quoted(namespace), "")
	case p.knows(namespace):
		return denied(d.does, quoted(namespace), "")
	case d.missing != nil:
		return d.missing()
	}
	return carillon.Errorf(carillon.NotFound, "namespace", "there is no namespace %.64q", namespace)
}

func quoted(namespace string) string {
	if namespace == everywhere {
		return `all namespaces ("*")`
	}
	return `namespace "` + namespace[:min(len(namespace), 64)] + `"`
}

// denied names the least role that would do.
func denied(does *action, where, queue string) error {
	if queue != "" {
		where = "queue \"" + queue[:min(len(queue), 64)] + "\" of " + where
	}
	return carillon.Errorf(carillon.PermissionDenied, "", "this needs the role %s on %s", does.roles[0], where)
}
