package redis

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/ordered"
)

// missing and dangling are the faults of the sorted sets.
var (
	missing = map[int]store.FaultKind{keyJobs: store.FaultListMissing, keyPending: store.FaultListMissing,
		keyDue: store.FaultDueMissing, keyStaged: store.FaultStagedMissing, keyPhases: store.FaultPhaseMissing,
		keyHistory: store.FaultHistoryMissing, keyFinished: store.FaultStatusMissing,
		keyAge: store.FaultAgeMissing, keyDeadAge: store.FaultAgeMissing,
		keyMetaRecordKeys: store.FaultMetaMissing}
	dangling = map[int]store.FaultKind{keyJobs: store.FaultListDangling, keyPending: store.FaultListDangling,
		keyDue: store.FaultDueDangling, keyStaged: store.FaultStagedDangling, keyPhases: store.FaultPhaseDangling,
		keyHistory: store.FaultHistoryDangling, keyFinished: store.FaultStatusDangling,
		keyAge: store.FaultAgeDangling, keyDeadAge: store.FaultAgeDangling,
		keyMetaRecordKeys: store.FaultMetaDangling}
)

// recordPlaces returns the members that a stored record has in sorted sets, and the field of its unfinished
// run; empty: it has none. They follow from its head alone.
func recordPlaces(ref string, v []byte) (places map[int]string, live string, err error) {
	if _, err := parseRecord(v); err != nil {
		return nil, "", err
	}
	d, s, l := int(v[0]), int(binary.BigEndian.Uint16(v[1:])), int(v[3])
	entries := v[recordHead:]
	list, kind := keyJobs, "\x00"
	if parsed, err := parseRef([]byte(ref)); err != nil {
		return nil, "", err
	} else if parsed.Seq != 0 {
		list, kind = keyPending, "\x01"
	}
	places = map[int]string{list: ref}
	if d > 0 {
		places[keyDue] = string(entries[:d]) + ref
	}
	if s > 0 {
		places[keyStaged] = string(entries[d:d+s]) + ref
	}
	if phase := carillon.Phase(v[4]); phase != carillon.PhaseScheduled {
		places[keyPhases] = string(v[4:5]) + kind + ref
	}
	return places, string(entries[d+s : d+s+l]), nil
}

// records looks at each record: its head, and its index entries.
func (x *examiner) records(ctx context.Context) error {
	return x.fields(ctx, keyState, func(refs, values []string) error {
		all := map[int][]wanted{}
		lives := map[string]store.Ref{}
		for i, text := range refs {
			ref, err := x.record(text, []byte(values[i]))
			if err != nil {
				if err := x.unreadable(store.FaultRecordUnreadable, ref, err); err != nil {
					return err
				}
				continue
			}
			places, live, err := recordPlaces(text, []byte(values[i]))
			if err != nil {
				return err // it was decoded
			}
			for key, member := range places {
				f := store.Fault{Kind: missing[key], Ref: ref, What: "its entry in " + keyNames[key]}
				all[key] = append(all[key], wanted{member, f})
			}
			if live != "" {
				lives[live] = ref
			}
		}
		return errors.Join(x.lacking(ctx, all), x.liveEntries(ctx, lives))
	})
}

// record decodes a record and compares its head with its state.
func (x *examiner) record(text string, v []byte) (ref store.Ref, err error) {
	if ref, err = parseRef([]byte(text)); err != nil {
		return ref, err
	}
	state, err := parseRecord(v)
	if err != nil {
		return ref, err
	}
	again, err := appendRecord(nil, x.number, &state)
	head := recordHead + int(again[0]) + int(binary.BigEndian.Uint16(again[1:])) + int(again[3])
	if err == nil && !bytes.HasPrefix(v, again[:head]) {
		err = fmt.Errorf("%w: its head says other things than its state", store.ErrDamaged)
	}
	return ref, err
}

func (x *examiner) unreadable(kind store.FaultKind, ref store.Ref, err error) error {
	if !errors.Is(err, store.ErrDamaged) {
		return err
	}
	return x.found(store.Fault{Kind: kind, Ref: ref, What: err.Error()})
}

// liveEntries looks whether records are found by the ids of their unfinished runs.
func (x *examiner) liveEntries(ctx context.Context, lives map[string]store.Ref) error {
	var ids []string
	for id := range lives {
		ids = append(ids, id)
	}
	got, err := x.values(ctx, keyLive, ids)
	if err != nil {
		return err
	}
	for i, id := range ids {
		ref := lives[id]
		want := string(ordered.AppendRef(nil, ref))
		if got[i] != nil && *got[i] == want {
			continue
		}
		f := store.Fault{Kind: store.FaultLiveMissing, Ref: ref, Run: x.runID(id), What: "its unfinished run"}
		if got[i] != nil {
			x.lived[id] = true
			taken, err := x.has(ctx, *got[i], id)
			if err != nil {
				return err
			}
			if taken {
				f.What = "another record has a run of this id"
				if err := x.found(f); err != nil {
					return err
				}
				continue
			}
		}
		if err := x.mendable(ctx, f, "hset", keyLive, id, want); err != nil {
			return err
		}
	}
	return nil
}

// has reports whether a record has an unfinished run.
func (x *examiner) has(ctx context.Context, ref, id string) (bool, error) {
	got, err := x.values(ctx, keyState, []string{ref})
	if err != nil || got[0] == nil {
		return false, err
	}
	_, live, err := recordPlaces(ref, []byte(*got[0]))
	return err == nil && live == id, nil // one that cannot be read is told of by itself
}

// runID is the id of a run as it stands in fields and members; zero if it is none.
func (x *examiner) runID(text string) store.RunID {
	id := store.RunID{Partition: uint16(x.number)}
	c := ordered.Cutter{B: []byte(text)}
	id.Scheduled = int64(^c.Uint64() ^ 1<<63)
	copy(id.UID[:], c.Bytes(uint64(len(id.UID))))
	id.Cause, id.Seq = carillon.Cause(c.Byte()), c.Seq()
	if c.End() != nil {
		return store.RunID{}
	}
	return id
}

// specs looks for specs without a record.
func (x *examiner) specs(ctx context.Context) error {
	return x.fields(ctx, keySpec, func(refs, _ []string) error {
		got, err := x.values(ctx, keyState, refs)
		if err != nil {
			return err
		}
		for i, text := range refs {
			if got[i] != nil {
				continue
			}
			ref, _ := parseRef([]byte(text)) // one that names nothing has no record
			f := store.Fault{Kind: store.FaultSpecDangling, Ref: ref, What: "a spec that no record has"}
			if err := x.mendable(ctx, f, "hdel", keySpec, text, ""); err != nil {
				return err
			}
		}
		return nil
	})
}

// refsIn cut the refs out of members of the sorted sets of records.
var refsIn = map[int]func(c *ordered.Cutter){
	keyJobs: func(*ordered.Cutter) {}, keyPending: func(*ordered.Cutter) {},
	keyDue:    func(c *ordered.Cutter) { c.Bytes(1 + 8) },
	keyStaged: func(c *ordered.Cutter) { c.Text(); c.Bytes(1 + 8) },
	keyPhases: func(c *ordered.Cutter) { c.Bytes(2) },
}

// recordIndexes looks for index entries of records that are not there, or say something else.
func (x *examiner) recordIndexes(ctx context.Context) error {
	for _, key := range []int{keyJobs, keyPending, keyDue, keyStaged, keyPhases} {
		if err := x.members(ctx, key, func(page []string) error {
			return x.entries(ctx, key, keyState, page, func(member string) string {
				c := ordered.Cutter{B: []byte(member)}
				refsIn[key](&c)
				return string(c.B)
			}, func(field, value string) (string, bool) {
				places, _, err := recordPlaces(field, []byte(value))
				return places[key], err != nil // then it is told of by itself
			})
		}); err != nil {
			return err
		}
	}
	return nil
}

// entries looks at members of a sorted set: of is the field of the hash that each leads to, and place is the
// member that this field has there; skip: it cannot be told.
func (x *examiner) entries(ctx context.Context, key, hash int, page []string, of func(member string) string,
	place func(field, value string) (member string, skip bool)) error {
	fields := make([]string, len(page))
	for i, member := range page {
		fields[i] = of(member)
	}
	got, err := x.values(ctx, hash, fields)
	if err != nil {
		return err
	}
	for i, member := range page {
		f := store.Fault{Kind: dangling[key], What: fmt.Sprintf("an entry in %s of what is not there", keyNames[key])}
		if got[i] != nil {
			want, skip := place(fields[i], *got[i])
			if skip || want == member {
				continue
			}
			f.What = "an old entry in " + keyNames[key]
		}
		switch hash {
		case keyState:
			f.Ref, _ = parseRef([]byte(fields[i])) // one that names nothing has no record
		case keyRuns:
			f.Run = x.runID(fields[i])
		}
		if err := x.mendable(ctx, f, "zrem", key, member, ""); err != nil {
			return err
		}
	}
	return nil
}

// lives looks for ids of runs that lead to records which do not have them.
func (x *examiner) lives(ctx context.Context) error {
	return x.fields(ctx, keyLive, func(ids, refs []string) error {
		for i, id := range ids {
			has, err := x.has(ctx, refs[i], id)
			if err != nil {
				return err
			}
			if has || x.lived[id] {
				continue
			}
			ref, _ := parseRef([]byte(refs[i])) // one that names nothing has no record
			f := store.Fault{Kind: store.FaultLiveDangling, Ref: ref, Run: x.runID(id), What: "no record has this run"}
			if err := x.mendable(ctx, f, "hdel", keyLive, id, ""); err != nil {
				return err
			}
		}
		return nil
	})
}

// runPlaces returns the members that a finished run has in sorted sets. They follow from its head alone.
func runPlaces(id string, v []byte) (map[int]string, error) {
	if _, err := parseRunRecord(v); err != nil {
		return nil, err
	}
	namespace := int(binary.BigEndian.Uint16(v[runHead-4:]))
	job := string(v[runHead : runHead+int(binary.BigEndian.Uint16(v[runHead-2:]))])
	age, last := keyAge, "\x00"
	if carillon.RunStatus(v[0]) == carillon.RunDead {
		age, last = keyDeadAge, "\x01"
	}
	if namespace > len(job) {
		return nil, fmt.Errorf("%w: a run whose namespace is longer than its job", store.ErrDamaged)
	}
	return map[int]string{keyHistory: job + id + last, age: string(v[1:9]) + id,
		keyFinished: string(v[:1]) + job[:namespace] + string(v[9:17]) + id}, nil
}

// runs looks at each finished run: its head, and its index entries.
func (x *examiner) runs(ctx context.Context) error {
	return x.fields(ctx, keyRuns, func(ids, values []string) error {
		all := map[int][]wanted{}
		for i, id := range ids {
			v := []byte(values[i])
			r, err := parseRunRecord(v)
			var places map[int]string
			if err == nil {
				err = sameRun(id, v, &r)
			}
			if err == nil {
				places, err = runPlaces(id, v)
			}
			if err != nil {
				if err := x.unreadable(store.FaultRunUnreadable, store.Ref{Key: r.Key}, err); err != nil {
					return err
				}
				continue
			}
			for key, member := range places {
				f := store.Fault{Kind: missing[key], Ref: store.Ref{Key: r.Key}, Run: r.ID,
					What: "its entry in " + keyNames[key]}
				all[key] = append(all[key], wanted{member, f})
			}
		}
		return x.lacking(ctx, all)
	})
}

// sameRun compares a finished run with the field that it has, and with its head.
func sameRun(id string, v []byte, r *store.RunRecord) error {
	again, err := appendRunRecord(nil, r)
	switch {
	case err != nil:
		return err
	case id != string(appendRun(nil, &r.ID)):
		return fmt.Errorf("%w: it is kept under the id of another run", store.ErrDamaged)
	case !bytes.HasPrefix(v, again[:runHead]):
		return fmt.Errorf("%w: its head says other things than its record", store.ErrDamaged)
	}
	return nil
}

// runIndexes looks for index entries of finished runs that are not there, or say something else.
func (x *examiner) runIndexes(ctx context.Context) error {
	cut := map[int]func(member string) string{
		keyHistory: func(m string) string {
			c := ordered.Cutter{B: []byte(m)}
			c.Text()
			c.Text()
			return string(c.B[:max(0, len(c.B)-1)])
		},
		keyFinished: func(m string) string {
			c := ordered.Cutter{B: []byte(m)}
			c.Byte()
			c.Text()
			c.Bytes(8)
			return string(c.B)
		},
		keyAge: func(m string) string { return m[min(8, len(m)):] },
	}
	cut[keyDeadAge] = cut[keyAge]
	for _, key := range []int{keyHistory, keyFinished, keyAge, keyDeadAge} {
		if err := x.members(ctx, key, func(page []string) error {
			return x.entries(ctx, key, keyRuns, page, cut[key], func(id, value string) (string, bool) {
				places, err := runPlaces(id, []byte(value))
				return places[key], err != nil // then it is told of by itself
			})
		}); err != nil {
			return err
		}
	}
	return nil
}

// metaRecords looks whether metadata records are listed, and whether what is listed is there.
func (x *examiner) metaRecords(ctx context.Context) error {
	if err := x.fields(ctx, keyMetaRecords, func(names, _ []string) error {
		all := map[int][]wanted{}
		for _, name := range names {
			f := store.Fault{Kind: store.FaultMetaMissing, What: fmt.Sprintf("kind and key %.80q", name)}
			all[keyMetaRecordKeys] = append(all[keyMetaRecordKeys], wanted{name, f})
		}
		return x.lacking(ctx, all)
	}); err != nil {
		return err
	}
	return x.members(ctx, keyMetaRecordKeys, func(page []string) error {
		return x.entries(ctx, keyMetaRecordKeys, keyMetaRecords, page, func(name string) string { return name },
			func(name, _ string) (string, bool) { return name, false })
	})
}
