package pebble

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/codec"
	"github.com/carillonhq/carillon/server/store/ordered"
)

// record reads a record.
func (v *view) record(ref store.Ref) (store.Record, error) {
	key := appendHeadKey(nil, v.partition, ref)
	value, ok, err := get(v.source, key)
	if err != nil {
		return store.Record{Ref: ref}, err
	}
	if !ok {
		v.known.learn(v.turn, &fact{key: key})
		return store.Record{Ref: ref}, nil
	}
	r, err := v.recordOf(ref, value, 0)
	if err != nil {
		return r, err
	}
	h, err := parseHead(v.partition, value)
	v.known.learn(v.turn, &fact{key: key, exists: true, head: value[:len(value)-len(h.body)]})
	return r, err
}

// recordOf reads the record that a head leads to.
func (v *view) recordOf(ref store.Ref, value []byte, maxSpec int) (store.Record, error) {
	h, err := parseHead(v.partition, value)
	if err != nil {
		return store.Record{}, fmt.Errorf("head of %s: %w", ref.Key, err)
	}
	body := h.body
	if !h.bodyInHead() {
		if body, err = need(v.source, appendBodyKey(nil, v.partition, &h, ref), "body", ref.Key); err != nil {
			return store.Record{}, err
		}
	}
	return v.fromBody(ref, body, maxSpec)
}

// fromBody decodes a record from its body; a spec longer than maxSpec (0: any) is left out.
func (v *view) fromBody(ref store.Ref, body []byte, maxSpec int) (store.Record, error) {
	r := store.Record{Ref: ref, Exists: true}
	state, sp, err := splitBody(body)
	if err == nil {
		r.State, err = codec.DecodeState(state)
	}
	if err != nil {
		return r, fmt.Errorf("body of %s: %w", ref.Key, err)
	}
	switch {
	case maxSpec > 0 && max(len(sp.inline), sp.length) > maxSpec:
	case sp.form == specInBody:
		r.Spec = append([]byte{}, sp.inline...)
	case sp.form == specInKey:
		r.Spec, err = need(v.source, appendSpecKey(nil, v.partition, ref), "spec", ref.Key)
	}
	return r, err
}

// list reads jobs and pending runs. They are under prefixes of their own, and are merged.
func (v *view) list(q store.ListQuery) (out []store.Record, err error) {
	if q.Limit <= 0 {
		return nil, nil
	}
	switch {
	case q.FirstOfEach:
		return v.firstOfEach(q)
	case q.PendingOf != nil:
		prefix := appendHead(nil, v.partition, kindPending)
		lower, upper := bounds(appendPendingPrefix(nil, v.partition, *q.PendingOf))
		q.Prefix = ""
		return v.listIn(q, len(prefix), past(prefix, lower, &q), upper)
	}
	out, err = v.listUnder(q, v.listPrefix(q, false))
	if err != nil || !q.Pending {
		return out, err
	}
	pending, err := v.listUnder(q, v.listPrefix(q, true))
	out = append(out, pending...)
	slices.SortFunc(out, func(a, b store.Record) int { return a.Compare(b.Ref) })
	return out[:min(len(out), q.Limit)], err
}

// listUnder lists what an index has under a prefix.
func (v *view) listUnder(q store.ListQuery, prefix []byte) ([]store.Record, error) {
	lower, upper := listBounds(q, prefix)
	return v.listIn(q, len(prefix), lower, upper)
}

// listPrefix returns the prefix of the index that has what a query asks for: the phase's, or else the heads.
func (v *view) listPrefix(q store.ListQuery, pending bool) []byte {
	switch {
	case q.ByPhase():
		return appendPhasePrefix(nil, v.partition, *q.Phase, pending)
	case pending:
		return appendHead(nil, v.partition, kindPending)
	}
	return appendHead(nil, v.partition, kindHead)
}

// listIn scans an index whose keys are a prefix and a ref.
func (v *view) listIn(q store.ListQuery, prefix int, lower, upper []byte) (out []store.Record, err error) {
	err = each(v.source, lower, upper, func(key, value []byte) (bool, error) {
		ref, err := ordered.ParseRef(key[prefix:])
		if err != nil {
			return false, err
		}
		if !strings.HasPrefix(ref.Name, q.Prefix) {
			return true, nil
		}
		if key[headLen-1] == kindPhase {
			if value, err = need(v.source, appendHeadKey(nil, v.partition, ref), "head", ref.Key); err != nil {
				return false, err
			}
		}
		r, err := v.recordOf(ref, value, q.MaxSpec)
		if err != nil {
			return false, err
		}
		if q.Phase == nil || r.State.Phase == *q.Phase {
			out = append(out, r)
		}
		return len(out) < q.Limit, nil
	})
	return out, err
}

// firstOfEach seeks the first head of each namespace, behind the last one of the namespace before.
func (v *view) firstOfEach(q store.ListQuery) (out []store.Record, err error) {
	_, upper := bounds(appendHead(nil, v.partition, kindHead))
	for after, found := q.After, true; found && len(out) < q.Limit; {
		_, lower := bounds(ordered.AppendText(appendHead(nil, v.partition, kindHead), after))
		found = false
		err = each(v.source, lower, upper, func(key, value []byte) (bool, error) {
			ref, err := ordered.ParseRef(key[headLen:])
			if err != nil {
				return false, err
			}
			r, err := v.recordOf(ref, value, q.MaxSpec)
			out, after, found = append(out, r), ref.Namespace, true
			return false, err
		})
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

// listBounds returns the first key under the prefix of an index that a list can begin with, and the one that
// it ends before.
func listBounds(q store.ListQuery, prefix []byte) (lower, upper []byte) {
	lower = bytes.Clone(prefix)
	if q.Namespace != "" {
		lower = ordered.AppendPrefix(ordered.AppendText(lower, q.Namespace), q.Prefix)
	}
	lower, upper = bounds(lower)
	return past(prefix, lower, &q), upper
}

// past returns the first key that is not before lower and behind the place from which a list goes on.
func past(prefix, lower []byte, q *store.ListQuery) []byte {
	if at, ok := q.Place(); ok {
		if key := append(ordered.AppendRef(bytes.Clone(prefix), at), 0); string(key) > string(lower) {
			return key
		}
	}
	return lower
}

// metaRecords scans the metadata records of a kind.
func (v *view) metaRecords(q store.MetaQuery) (out []store.MetaRecord, err error) {
	if q.Limit <= 0 {
		return nil, nil
	}
	lower, upper := bounds(appendMetaKey(nil, v.partition, q.Kind, q.Prefix))
	head := headLen + 1
	if q.After != "" && q.After >= q.Prefix {
		lower = append(appendMetaKey(nil, v.partition, q.Kind, q.After), 0)
	}
	err = each(v.source, lower, upper, func(key, value []byte) (bool, error) {
		out = append(out, store.MetaRecord{Kind: q.Kind, Key: string(key[head:]),
			Value: append([]byte{}, value...)})
		return len(out) < q.Limit, nil
	})
	return out, err
}
