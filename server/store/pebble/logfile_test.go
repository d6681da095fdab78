package pebble

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/cockroachdb/pebble/v2/record"
)

// manifestOf is a file of records as Pebble writes a manifest.
func manifestOf(t *testing.T, records [][]byte) []byte {
	t.Helper()
	var out bytes.Buffer
	w := record.NewWriter(&out)
	for _, r := range records {
		if _, err := w.WriteRecord(r); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// recordsIn reads the records of a manifest, as far as it is valid.
func recordsIn(t *testing.T, file []byte) (records [][]byte, valid int64) {
	t.Helper()
	r := newLogReader(bytes.NewReader(file), 0)
	if err := r.each(func(record []byte) error {
		records = append(records, bytes.Clone(record))
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return records, r.valid()
}

// TestALogIsReadAsFarAsItIsValid: all of what Pebble wrote; of a file that was cut or changed, the records
// before that place, and none that was never written.
func TestALogIsReadAsFarAsItIsValid(t *testing.T) {
	for seed := range uint64(60) {
		rng := rand.New(rand.NewPCG(seed, 1))
		want := make([][]byte, 1+rng.IntN(6))
		for i := range want {
			want[i] = make([]byte, rng.IntN(3)*rng.IntN(logBlock)+1)
			for k := range want[i] {
				want[i][k] = byte(rng.Uint32())
			}
		}
		file := manifestOf(t, want)
		if got, valid := recordsIn(t, file); !slices.EqualFunc(got, want, bytes.Equal) ||
			valid != int64(len(file)) {
			t.Fatalf("seed %d: %d of %d records are read, %d of %d bytes are valid", seed, len(got), len(want),
				valid, len(file))
		}
		at := rng.IntN(len(file))
		changed := bytes.Clone(file)
		changed[at] ^= 1 << rng.IntN(8)
		for what, bad := range map[string][]byte{"cut": file[:at], "changed": changed} {
			got, valid := recordsIn(t, bad)
			if len(got) >= len(want) || !slices.EqualFunc(got, want[:len(got)], bytes.Equal) || valid > int64(at) {
				t.Fatalf("seed %d: %s at %d, %d of %d records are read, %d bytes are valid", seed, what, at, len(got),
					len(want), valid)
			}
		}
	}
}

// TestALogIsNotTakenForAnother: the chunks of a log have its number, so those of an older use of the file end
// it.
func TestALogIsNotTakenForAnother(t *testing.T) {
	chunk := func(number uint32, payload string) []byte {
		b := append([]byte{5}, binary.LittleEndian.AppendUint32(nil, number)...) // a whole record
		b = append(b, payload...)
		head := binary.LittleEndian.AppendUint32(nil, chunkSum(b))
		return append(binary.LittleEndian.AppendUint16(head, uint16(len(payload))), b...)
	}
	file := slices.Concat(chunk(7, "a"), chunk(7, "b"), chunk(6, "older"))
	r := newLogReader(bytes.NewReader(file), 7)
	var got string
	for c, ok, err := r.next(); ok; c, ok, err = r.next() {
		if got += string(c.payload); err != nil || !c.first || !c.last {
			t.Errorf("%+v, %v", c, err)
		}
	}
	if got != "ab" || r.valid() != int64(2*len(chunk(7, "a"))) {
		t.Errorf("it has %q, valid up to %d", got, r.valid())
	}
}

func TestTheFirstLogIsInTheManifest(t *testing.T) {
	tagged := func(values ...uint64) (b []byte) {
		for _, v := range values {
			b = binary.AppendUvarint(b, v)
		}
		return b
	}
	named := append(tagged(tagComparer, 3), "abc"...)
	for name, c := range map[string]struct {
		record []byte
		want   uint64
	}{
		"after other values": {slices.Concat(named, tagged(tagNextFile, 9, tagSequence, 300, tagLog, 5)), 5},
		"no log":             {tagged(tagNextFile, 9, tagPrevLog, 1), 0},
		"behind a table":     {tagged(7, 1, tagLog, 5), 0},
		"cut off":            {tagged(tagLog), 0},
		"empty":              {nil, 0},
	} {
		if got := firstLog(c.record); got != c.want {
			t.Errorf("%s: log %d, want %d", name, got, c.want)
		}
	}
	first, err := firstLogOf(manifestOf(t,
		[][]byte{tagged(tagLog, 2), tagged(tagNextFile, 9), tagged(tagLog, 4)}))
	if first != 4 || err != nil {
		t.Errorf("the last record that says so is of log %d, %v; want 4", first, err)
	}
}
