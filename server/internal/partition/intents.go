package partition

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/delivery"
	"github.com/carillonhq/carillon/server/internal/message"
	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/codec"
)

// A batch put across partitions (docs/decisions/0022) has two kinds of metadata records. store.KindIntent is
// one job of a decided batch, in the partition of the batch's first job. store.KindApplied marks, in each
// partition, that the batch's jobs of that partition are stored; it is kept while the intents may exist.

// CommitIntents returns the metadata records that decide a batch. Whoever finds them stores the jobs.
func CommitIntents(id string, at int64, reqs []message.PutRequest) []store.MetaRecord {
	out := make([]store.MetaRecord, len(reqs))
	for i := range reqs {
		r := &reqs[i]
		v := binary.AppendUvarint(nil, uint64(len(reqs)))
		v = binary.AppendVarint(v, at)
		v = append(v, r.Random[:]...)
		v = append(v, boolByte(r.Job.Paused)|boolByte(r.Trace != "")<<1)
		v = appendText(v, r.Job.Namespace)
		v = appendText(v, r.Job.Name)
		if r.Trace != "" {
			v = appendText(v, string(r.Trace))
		}
		out[i] = store.MetaRecord{Kind: store.KindIntent, Key: intentKey(id, i), Value: append(v, specOf(r)...)}
	}
	return out
}

// WithdrawIntents returns the records that delete what CommitIntents wrote.
func WithdrawIntents(id string, n int) []store.MetaRecord {
	out := make([]store.MetaRecord, n)
	for i := range out {
		out[i] = store.MetaRecord{Kind: store.KindIntent, Key: intentKey(id, i)}
	}
	return out
}

// IntentPrefix returns the prefix of the keys of a batch's intents.
func IntentPrefix(id string) string { return id + "\x00" }

func intentKey(id string, i int) string {
	return string(binary.BigEndian.AppendUint32([]byte(IntentPrefix(id)), uint32(i)))
}

// IntentID returns the id of the batch that an intent belongs to.
func IntentID(key string) string { return key[:max(0, len(key)-5)] }

func boolByte(b bool) byte {
	if b {
		return 1
	}
	return 0
}

func appendText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// ReadIntents decodes the requests of a batch from all of its intents.
func ReadIntents(records []store.MetaRecord) ([]message.PutRequest, error) {
	reqs := make([]message.PutRequest, len(records))
	for i := range records {
		n, err := readIntent(&reqs[i], records[i].Value)
		switch {
		case err != nil:
			return nil, fmt.Errorf("intent %d: %w", i, err)
		case n != uint64(len(records)):
			return nil, fmt.Errorf("intent %d: %w: %d of %d are there", i, store.ErrDamaged, len(records), n)
		}
	}
	return reqs, nil
}

// ReadIntent returns the job of an intent.
func ReadIntent(record store.MetaRecord) (carillon.Job, error) {
	var r message.PutRequest
	if _, err := readIntent(&r, record.Value); err != nil {
		return carillon.Job{}, err
	}
	return *r.Job, nil
}

// IntentSpec returns the job of an intent, and where its spec begins in the value, which it ends.
func IntentSpec(value []byte) (of carillon.Key, at int, err error) {
	var r message.PutRequest
	h, err := readIntentHead(&r, value)
	return h.of, h.size, err
}

func readIntent(r *message.PutRequest, b []byte) (n uint64, err error) {
	h, err := readIntentHead(r, b)
	if err != nil {
		return 0, err
	}
	r.Spec = b[h.size:]
	j, err := codec.DecodeSpec(r.Spec, h.of)
	if err != nil {
		return 0, err
	}
	j.Paused = h.paused
	r.Job = &j
	return h.all, nil
}

// intentHead is what comes before the spec of an intent, beside what goes into the request.
type intentHead struct {
	all    uint64 // intents of the batch
	of     carillon.Key
	paused bool
	size   int
}

func readIntentHead(r *message.PutRequest, b []byte) (h intentHead, err error) {
	in := bytes.NewReader(b)
	n, noCount := binary.ReadUvarint(in)
	at, noTime := binary.ReadVarint(in)
	_, noRandom := io.ReadFull(in, r.Random[:])
	bits, noBits := in.ReadByte() // 1: paused; 2: there is a trace
	namespace, noNamespace := readText(in)
	name, noName := readText(in)
	trace, noTrace := "", error(nil)
	if bits&2 != 0 {
		trace, noTrace = readText(in)
	}
	if errors.Join(noCount, noTime, noRandom, noBits, noNamespace, noName, noTrace) != nil {
		return h, store.ErrDamaged
	}
	r.At, r.Trace = at, delivery.Trace(trace)
	return intentHead{all: n, of: carillon.Key{Namespace: namespace, Name: name}, paused: bits&1 != 0,
		size: len(b) - in.Len()}, nil
}

// readText reads what appendText has written.
func readText(in *bytes.Reader) (string, error) {
	n, err := binary.ReadUvarint(in)
	if err != nil || n > uint64(in.Len()) {
		return "", store.ErrDamaged
	}
	text := make([]byte, n)
	_, err = io.ReadFull(in, text)
	return string(text), err
}
