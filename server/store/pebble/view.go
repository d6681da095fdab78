package pebble

import (
	"fmt"
	"strings"

	"github.com/carillonhq/carillon"
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

// list scans the heads of jobs.
func (v *view) list(q store.ListQuery) (out []store.Record, err error) {
	if q.Limit <= 0 {
		return nil, nil
	}
	if q.FirstOfEach {
		return v.firstOfEach(q)
	}
	lower, upper := v.listBounds(q)
	err = each(v.source, lower, upper, func(key, value []byte) (bool, error) {
		ref, err := ordered.ParseRef(key[headLen:])
		if err != nil {
			return false, err
		}
		if !strings.HasPrefix(ref.Name, q.Prefix) {
			return true, nil
		}
		r, err := v.recordOf(ref, value, 0)
		if err != nil {
			return false, err
		}
		if (q.Phase == nil || r.State.Phase == *q.Phase) && codec.MatchLabel(r.Spec, q.Label) {
			if q.MaxSpec > 0 && len(r.Spec) > q.MaxSpec {
				r.Spec = nil
			}
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

// listBounds returns the first head key that a list can begin with and the one that it ends before.
func (v *view) listBounds(q store.ListQuery) (lower, upper []byte) {
	after := carillon.Key{Namespace: q.Namespace, Name: q.After}
	lower, upper = bounds(appendHead(nil, v.partition, kindHead))
	if q.Namespace == "" {
		after.Namespace, after.Name, _ = strings.Cut(q.After, "\x00")
	} else {
		lower = ordered.AppendText(lower, q.Namespace)
		_, upper = bounds(lower)
		if q.Prefix != "" {
			lower = ordered.AppendPrefix(lower, q.Prefix)
			_, upper = bounds(lower)
		}
	}
	if q.After != "" {
		past := append(appendHeadKey(nil, v.partition, store.Ref{Key: after}), 0)
		if string(past) > string(lower) {
			lower = past
		}
	}
	return lower, upper
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
