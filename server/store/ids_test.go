package store_test

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/store"
)

// TestHashForEver: these values are in stores.
func TestHashForEver(t *testing.T) {
	for _, c := range []struct {
		ns, name  string
		hash      uint64
		partition int // of 64
	}{
		{"default", "a", 0xfe9b9c6e14f4551e, 30},
		{"default", "reports/nightly", 0xc3afa32de63f8066, 38},
		{"acme-1", "reports/nightly", 0x7884c321e282b4f1, 49},
		{"default", "第一", 0x4ae45d865a3dd6ec, 44},
		{"", "", 0xb9034ad37056f5fb, 59},
	} {
		k := carillon.Key{Namespace: c.ns, Name: c.name}
		if got := store.KeyHash(k); got != c.hash {
			t.Errorf("Hash(%v) = %#x, want %#x", k, got, c.hash)
		}
		if got := store.PartitionOf(k, 64); got != c.partition {
			t.Errorf("PartitionOf(%v) = %d, want %d", k, got, c.partition)
		}
	}
}

// TestHashIsFNV: against the standard library's.
func TestHashIsFNV(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		k := carillon.Key{Namespace: rapid.String().Draw(t, "ns"), Name: rapid.String().Draw(t, "name")}
		f := fnv.New64a()
		f.Write([]byte(k.Namespace + "\x00" + k.Name))
		h := f.Sum64()
		h ^= h >> 33
		h *= 0xff51afd7ed558ccd
		h ^= h >> 33
		h *= 0xc4ceb9fe1a85ec53
		h ^= h >> 33
		if got := store.KeyHash(k); got != h {
			t.Fatalf("Hash(%v) = %#x, want %#x", k, got, h)
		}
	})
}

// TestPartitionsAreEven: chi-square over 64 partitions, for the kinds of names that people give.
func TestPartitionsAreEven(t *testing.T) {
	const partitions, keys = 64, 64 * 500
	for what, key := range map[string]func(i int) carillon.Key{
		"numbered": func(i int) carillon.Key {
			return carillon.Key{Namespace: "default", Name: fmt.Sprintf("job-%d", i)}
		},
		"numbered levels": func(i int) carillon.Key {
			return carillon.Key{Namespace: "default", Name: fmt.Sprintf("a/%d/%d", i/100, i%100)}
		},
		"namespaces": func(i int) carillon.Key {
			return carillon.Key{Namespace: fmt.Sprintf("tenant-%d",
				i), Name: "nightly"}
		},
		"multiples of 64": func(i int) carillon.Key {
			return carillon.Key{Namespace: "default", Name: fmt.Sprint(i * 64)}
		},
		"names with one tail": func(i int) carillon.Key {
			return carillon.Key{Namespace: "default", Name: fmt.Sprintf("%08x-same-tail", i)}
		},
	} {
		var counts [partitions]float64
		for i := range keys {
			counts[store.PartitionOf(key(i), partitions)]++
		}
		chi2, expected := 0.0, float64(keys)/partitions
		for _, n := range counts {
			chi2 += (n - expected) * (n - expected) / expected
		}
		const freedom = partitions - 1
		if bound := freedom + 5*math.Sqrt(2*freedom); chi2 > bound {
			t.Errorf("%s: chi-square is %.0f, above %.0f", what, chi2, bound)
		}
	}
}

func TestUID(t *testing.T) {
	k := carillon.Key{Namespace: "default", Name: "a"}
	u := store.NewUID(k, [8]byte{1, 2, 3, 4, 5, 6, 7, 8})
	if binary.BigEndian.Uint64(u[:]) != store.KeyHash(k) || [8]byte(u[8:]) != [8]byte{1, 2, 3, 4, 5, 6, 7, 8} {
		t.Errorf("%x does not hold the key's hash and the random bytes", u[:])
	}
	if len(u.String()) != 26 || u.String() != strings.ToLower(u.String()) {
		t.Errorf("%q", u)
	}
}

// TestRunIDForEver: these ids are in histories, and in the tables of those who deduplicate by them.
func TestRunIDForEver(t *testing.T) {
	uid := store.NewUID(carillon.Key{Namespace: "default", Name: "reports/nightly"},
		[8]byte{1, 2, 3, 4, 5, 6, 7, 8})
	for want, id := range map[string]store.RunID{
		"0400fgtfkcmucfs0co0g40o40k30e20ot7mecdr78000000": {Partition: 7, UID: uid,
			Scheduled: 1_795_226_400_000_000_000},
		"07vvvgtfkcmucfs0co0g40o40k30e20ot7mecdr7800g3b02": {Partition: 65535, UID: uid,
			Scheduled: 1_795_226_400_000_000_001, Cause: carillon.CauseTrigger, Seq: 300},
		"04000000000000000000000000000000000000000000000": {},
	} {
		if got := id.String(); got != want {
			t.Errorf("%+v is %q, want %q", id, got, want)
		}
	}
}

func anyRun(t *rapid.T, label string) store.RunID {
	return store.RunID{
		Partition: rapid.Uint16().Draw(t, label+" partition"),
		UID:       carillon.UID(rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, label+" uid")),
		Scheduled: rapid.Int64Min(0).Draw(t, label+" scheduled"),
		Cause:     carillon.Cause(rapid.IntRange(0, 2).Draw(t, label+" cause")),
		Seq:       rapid.Uint64().Draw(t, label+" seq"),
	}
}

func TestRunIDRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		id := anyRun(t, "run")
		text := id.String()
		if got, err := store.ParseRunID(text); err != nil || got != id {
			t.Fatalf("%q is %+v, %v; want %+v", text, got, err, id)
		}
		if strings.Trim(text, "0123456789abcdefghijklmnopqrstuv") != "" {
			t.Fatalf("%q is not safe in a path", text)
		}
		raw := id.AppendBinary([]byte("before"))
		if got, err := store.DecodeRunID(raw[len("before"):]); err != nil || got != id {
			t.Fatalf("%x is %+v, %v; want %+v", raw, got, err, id)
		}
		if got := id.ScheduledTime(); got.UnixNano() != id.Scheduled {
			t.Fatalf("scheduled at %v, want %d", got, id.Scheduled)
		}
	})
}

// TestRunIDsOfAJobAreInOrder: by time, as text.
func TestRunIDsOfAJobAreInOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := anyRun(t, "a"), anyRun(t, "b")
		b.Partition, b.UID = a.Partition, a.UID
		if want := cmp.Compare(a.Scheduled, b.Scheduled); want != 0 && cmp.Compare(a.String(), b.String()) != want {
			t.Fatalf("%q at %d and %q at %d are not in order", a, a.Scheduled, b, b.Scheduled)
		}
	})
}

// TestOnlyOneTextIsARunID: what is taken comes back as it was, so that two texts never mean one run.
func TestOnlyOneTextIsARunID(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := []byte(anyRun(t, "run").String())
		for range rapid.IntRange(1, 3).Draw(t, "changes") {
			text[rapid.IntRange(0, len(text)-1).Draw(t,
				"at")] = byte(rapid.SampledFrom([]rune("0v8AVz=\n ")).Draw(t, "to"))
		}
		got, err := store.ParseRunID(string(text))
		switch {
		case err != nil && fieldOf(err) != "id":
			t.Fatalf("%q: %v", text, err)
		case err == nil && got.String() != string(text):
			t.Fatalf("%q was taken as %q", text, got)
		}
	})
}

func TestBadRunIDs(t *testing.T) {
	good := store.RunID{Seq: 1}.String()
	for _, bad := range []string{"", "0", "nightly", good[:len(good)-2], good + "00",
		strings.ToUpper("v" + good[1:]), "10" + good[2:], strings.Repeat("v", 10_000)} {
		if _, err := store.ParseRunID(bad); fieldOf(err) != "id" {
			t.Errorf("%.80q: %v", bad, err)
		}
	}
}

// fieldOf returns the field that an invalid argument names.
func fieldOf(err error) string {
	if e, ok := errors.AsType[*carillon.Error](err); ok && e.Kind == carillon.InvalidArgument {
		return e.Field
	}
	return ""
}

// TestIDsOfAnotherNumberOfPartitions: an id leads to the partition of its job, however many there were when it
// was given.
func TestIDsOfAnotherNumberOfPartitions(t *testing.T) {
	for i := range 500 {
		k := carillon.Key{Namespace: "default", Name: fmt.Sprint("job/", i)}
		id := store.RunID{Partition: uint16(i * 131), UID: store.NewUID(k, [8]byte{byte(i)}), Scheduled: int64(i), Seq: uint64(i)}
		for _, n := range []int{1, 2, 3, 64, 100, store.MaxPartitions} {
			is := id.In(n)
			if int(is.Partition) != store.PartitionOf(k, n) || is.In(7).In(n) != is {
				t.Errorf("%+v among %d partitions is %+v", id, n, is)
			}
			if is.Partition = id.Partition; is != id {
				t.Errorf("%+v among %d partitions has changed to %+v", id, n, is)
			}
		}
	}
}
