package etcd

import (
	"errors"
	"fmt"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/codec"
	"github.com/carillonhq/carillon/server/store/contents"
)

// built is a batch as operations of etcd.
type built struct {
	ops   []*pb.RequestOp
	sizes []int // of each, in bytes
	size  int
}

// build makes the operations of a batch: what it has touched is written as it is after the batch, or deleted.
// No key is in two of them, which etcd would refuse.
func (r *replica) build(b *store.Batch, t *contents.Touched, was, is *contents.Partition) (*built, error) {
	out := &built{}
	for ref := range t.Records {
		switch rec := is.Record(ref); {
		case rec != nil:
			out.put(r.record(ref), recordValue(rec))
		case was.Record(ref) != nil:
			out.remove(r.record(ref))
		}
	}
	for id, key := range t.Runs {
		switch run := is.Run(id); {
		case run != nil:
			out.put(r.run(run.Key, id), codec.AppendRun(nil, run))
		case was.Run(id) != nil:
			out.remove(r.run(key, id))
		}
	}
	for i := range b.MetaRecords {
		m := &b.MetaRecords[i]
		if m.Value == nil {
			out.remove(r.metaRecord(m.Kind, m.Key))
		} else {
			out.put(r.metaRecord(m.Kind, m.Key), m.Value)
		}
	}
	for i, size := range out.sizes {
		if size > mostRecord {
			return nil, fmt.Errorf("store: etcd takes no record of %d bytes (key %q): at most %d",
				size, out.ops[i].GetRequestPut().GetKey(), mostRecord)
		}
	}
	return out, nil
}

// opBytes is what an operation takes besides its key and its value, at most.
const opBytes = 32

func (o *built) add(op *pb.RequestOp, size int) {
	o.ops, o.sizes, o.size = append(o.ops, op), append(o.sizes, size), o.size+size
}

func (o *built) put(key, value []byte) { o.add(put(key, value), len(key)+len(value)+opBytes) }

func (o *built) remove(key []byte) { o.add(remove(key), len(key)+opBytes) }

// parts cuts the operations into parts that fit into a transaction, with some to spare.
func (o *built) parts(most int) (parts [][]*pb.RequestOp) {
	const spare = 2
	from, size := 0, 0
	for i := range o.ops {
		if i > from && (i-from >= most-spare || size+o.sizes[i] > mostBytes) {
			parts = append(parts, o.ops[from:i])
			from, size = i, 0
		}
		size += o.sizes[i]
	}
	return append(parts, o.ops[from:])
}

var errStrange = errors.New("not one of the store's")

// parseMeta reads what metaRecord has made, behind the folder.
func parseMeta(name, value []byte) (store.MetaRecord, error) {
	if len(name) < 2 || name[1] != '/' {
		return store.MetaRecord{}, errStrange
	}
	return store.MetaRecord{Kind: name[0], Key: string(name[2:]), Value: append([]byte{}, value...)}, nil
}
