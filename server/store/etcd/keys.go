package etcd

import (
	"bytes"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/ordered"
)

// keys are the keys of a store. Everything that is asked by an order is in memory, so the keys are made to be
// read by people; docs/stores.md tells operators.
//
//	PREFIX/store                          what the store was created with
//	PREFIX/maintainer                     which process does the maintenance
//	PREFIX/nodes/ID                       a member
//	PREFIX/owners/PPPPP                   who owns a partition, and until when
//	PREFIX/heads/PPPPP                    the term in force; every batch writes it
//	PREFIX/commits/PPPPP                  a batch of several parts that is committed, and not in place yet
//	PREFIX/p/PPPPP/jobs/NAMESPACE/NAME    a job
//	PREFIX/p/PPPPP/jobs/NAMESPACE/NAME/N  a pending run
//	PREFIX/p/PPPPP/meta/K/KEY             a metadata record
//	PREFIX/p/PPPPP/parts/ID/N             a part of a batch
//	PREFIX/p/PPPPP/runs/NAMESPACE/NAME/ID a finished run
//
// In namespaces and names a slash is written %2F and a percent sign %25.
type keys struct{ prefix string }

func (k keys) of(parts ...string) []byte { return []byte(k.prefix + "/" + strings.Join(parts, "/")) }

func (k keys) store() []byte          { return k.of("store") }
func (k keys) maintainer() []byte     { return k.of("maintainer") }
func (k keys) node(id string) []byte  { return k.of("nodes", url.PathEscape(id)) }
func (k keys) nodes() []byte          { return k.of("nodes", "") }
func (k keys) owner(p int) []byte     { return k.of("owners", digits(p)) }
func (k keys) head(p int) []byte      { return k.of("heads", digits(p)) }
func (k keys) heads() []byte          { return k.of("heads", "") }
func (k keys) commit(p int) []byte    { return k.of("commits", digits(p)) }
func (k keys) commits() []byte        { return k.of("commits", "") }
func (k keys) partition(p int) []byte { return k.of("p", digits(p), "") }
func (k keys) meta(p int, kind byte) []byte {
	return append(k.of("p", digits(p), "meta", ""), kind, '/')
}

// parts is what the keys of a batch's parts begin with; of an empty id, those of all batches.
func (k keys) parts(p int, id string) []byte {
	if id == "" {
		return k.of("p", digits(p), "parts", "")
	}
	return k.of("p", digits(p), "parts", id, "")
}

func (k keys) part(p int, id string, n int) []byte {
	return k.of("p", digits(p), "parts", id, fmt.Sprintf("%06d", n))
}

// digits is the number of a partition.
func digits(p int) string { return fmt.Sprintf("%05d", p) }

// last is the number that a key ends with, behind its last slash.
func last(key []byte) (int, error) {
	n, err := strconv.Atoi(string(key[bytes.LastIndexByte(key, '/')+1:]))
	if err != nil {
		return 0, damaged(key, err)
	}
	return n, nil
}

// after is the end of the range of all keys that begin with a prefix.
func after(prefix []byte) []byte { return ordered.After(prefix) }

// name appends a namespace or a name.
func name(b []byte, s string) []byte {
	for i := range len(s) {
		switch s[i] {
		case '/':
			b = append(b, "%2F"...)
		case '%':
			b = append(b, "%25"...)
		default:
			b = append(b, s[i])
		}
	}
	return b
}

// job appends what names a job.
func job(b []byte, k carillon.Key) []byte {
	return name(append(name(b, k.Namespace), '/'), k.Name)
}

// The folders of a partition.
const (
	jobsFolder = "jobs/"
	runsFolder = "runs/"
	metaFolder = "meta/"
)

// place is a partition's keys.
type place struct {
	number int
	prefix []byte // up to the slash
}

func (k keys) place(p int) place { return place{p, k.partition(p)} }

func (p place) in(folder string) []byte {
	return append(append(make([]byte, 0, len(p.prefix)+64), p.prefix...), folder...)
}

// record is the key of a job or a pending run.
func (p place) record(r store.Ref) []byte {
	b := job(p.in(jobsFolder), r.Key)
	if r.Seq > 0 {
		b = strconv.AppendUint(append(b, '/'), r.Seq, 10)
	}
	return b
}

// run is the key of a finished run.
func (p place) run(k carillon.Key, id store.RunID) []byte {
	return append(append(job(p.in(runsFolder), k), '/'), id.String()...)
}

// metaRecord is the key of a metadata record.
func (p place) metaRecord(kind byte, key string) []byte {
	return append(append(p.in(metaFolder), kind, '/'), key...)
}

// parseRef reads what record has made, behind the folder.
func parseRef(b []byte) (store.Ref, error) {
	words := strings.Split(string(b), "/")
	if len(words) < 2 || len(words) > 3 {
		return store.Ref{}, fmt.Errorf("%w: %q names no job", store.ErrDamaged, b)
	}
	for i := range 2 {
		plain, err := url.PathUnescape(words[i])
		if err != nil {
			return store.Ref{}, fmt.Errorf("%w: %q names no job: %w", store.ErrDamaged, b, err)
		}
		words[i] = plain
	}
	ref := store.Ref{Key: carillon.Key{Namespace: words[0], Name: words[1]}}
	if len(words) == 3 {
		seq, err := strconv.ParseUint(words[2], 10, 64)
		if err != nil || seq == 0 {
			return store.Ref{}, fmt.Errorf("%w: %q names no pending run", store.ErrDamaged, b)
		}
		ref.Seq = seq
	}
	return ref, nil
}

// idOf is the id of the member whose key it is.
func idOf(key []byte) (string, error) {
	return url.PathUnescape(string(key[bytes.LastIndexByte(key, '/')+1:]))
}
