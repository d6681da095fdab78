package transfer

import (
	"bufio"
	"compress/gzip"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/codec"
	"github.com/carillonhq/carillon/server/store/mackey"
)

// A backup is a file of frames, compressed by gzip: its head, batches, and its end. Each frame is its kind,
// its length (4 bytes), its bytes, and their CRC-32C with the kind (4 bytes); numbers are big endian.
//
//	H  JSON: fileHead
//	B  2 bytes for the partition, and a batch as package codec writes it
//	E  JSON: Result; nothing follows
const (
	frameHead  = 'H'
	frameBatch = 'B'
	frameEnd   = 'E'

	fileMagic   = "carillon backup"
	fileVersion = 1
	// mostEpoch is what Redis can count to.
	mostEpoch = 1 << 53
	// mostFrame is the length of the longest frame: one record, or some.
	mostFrame = 64 << 20
)

type fileHead struct {
	Magic   string    `json:"magic"`
	Version int       `json:"version"`
	Taken   time.Time `json:"taken"`
	Head
}

// ErrDamaged is the error of a file that is not a backup, or not a whole one.
var ErrDamaged = errors.New("the backup is damaged")

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Backup writes what a store holds to w, and leaves the store as it was. What it wrote is a secret: it has
// the key that authenticates tokens.
func Backup(ctx context.Context, from store.Store, w io.Writer, now time.Time,
	p Progress) (result Result, err error) {
	if err := Usable(ctx, from); err != nil {
		return result, err
	}
	if err := used(ctx, from); err != nil {
		return result, err
	}
	f, work, err := freeze(ctx, from)
	if err != nil {
		return result, err
	}
	defer func() { err = errors.Join(err, f.thaw(ctx)) }()
	packed, err := gzip.NewWriterLevel(w, gzip.BestSpeed)
	if err != nil {
		return result, err
	}
	out := bufio.NewWriterSize(packed, 1<<20)
	if err := writeJSON(out, frameHead, fileHead{fileMagic, fileVersion, now.UTC(), f.Head()}); err != nil {
		return result, err
	}
	var all tally
	var mu sync.Mutex // of out
	write := func(_ context.Context, partition int, b *store.Batch) error {
		frame := codec.AppendBatch(binary.BigEndian.AppendUint16(nil, uint16(partition)), b)
		mu.Lock()
		err := writeFrame(out, frameBatch, frame)
		mu.Unlock()
		if err != nil {
			return err
		}
		return all.add(partition, b, p)
	}
	if err := f.Each(work, write); err != nil {
		return result, cause(work, err)
	}
	if err := f.hold(work); err != nil {
		return result, err
	}
	result = all.result()
	err = writeJSON(out, frameEnd, result)
	return result, errors.Join(err, out.Flush(), packed.Close())
}

func writeJSON(w io.Writer, kind byte, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return writeFrame(w, kind, b)
}

func writeFrame(w io.Writer, kind byte, b []byte) error {
	if len(b) > mostFrame {
		return fmt.Errorf("a batch of %d bytes is too long", len(b))
	}
	head := binary.BigEndian.AppendUint32([]byte{kind}, uint32(len(b)))
	sum := crc32.Update(crc32.Checksum(head[:1], castagnoli), castagnoli, b)
	for _, part := range [][]byte{head, b, binary.BigEndian.AppendUint32(nil, sum)} {
		if _, err := w.Write(part); err != nil {
			return err
		}
	}
	return nil
}

// file is a backup that is read.
type file struct {
	from io.Reader
	in   *bufio.Reader
	says fileHead
	read bool // to its end, or a part of it
}

// openFile reads the head of a backup.
func openFile(r io.Reader) (*file, error) {
	f := &file{from: r}
	if err := f.begin(); err != nil {
		return nil, err
	}
	return f, nil
}

// begin reads the head.
func (f *file) begin() error {
	packed, err := gzip.NewReader(f.from)
	if err != nil {
		return fmt.Errorf("%w: it does not begin as a backup does: %w", ErrDamaged, err)
	}
	f.in = bufio.NewReaderSize(packed, 1<<20)
	kind, b, err := f.frame()
	if err != nil {
		return err
	}
	if err := json.Unmarshal(b, &f.says); kind != frameHead || err != nil || f.says.Magic != fileMagic {
		return fmt.Errorf("%w: it does not begin as a backup does", ErrDamaged)
	}
	if f.says.Version != fileVersion {
		return fmt.Errorf("the backup is of version %d, this program knows %d", f.says.Version, fileVersion)
	}
	return readable(f.says.Head)
}

// readable is an error for a backup of a store that this program cannot fill.
func readable(h Head) error {
	if h.Format > store.Format() || h.Format != store.Format() && !store.Extends(h.Format) {
		return store.CheckFormat(h.Format)
	}
	if h.Partitions < 1 || h.Partitions > store.MaxPartitions || len(h.MACKey) != mackey.Size ||
		h.Epoch > mostEpoch {
		return fmt.Errorf("%w: its head says %d partitions, a key of %d bytes, epoch %d", ErrDamaged, h.Partitions,
			len(h.MACKey), h.Epoch)
	}
	return nil
}

// frame reads a frame.
func (f *file) frame() (kind byte, b []byte, err error) {
	damaged := func(err error) (byte, []byte, error) {
		if atEnd(err) {
			err = io.ErrUnexpectedEOF
		}
		return 0, nil, damage(err)
	}
	var head [5]byte
	if _, err := io.ReadFull(f.in, head[:]); err != nil {
		return damaged(err)
	}
	size := binary.BigEndian.Uint32(head[1:])
	if size > mostFrame {
		return damaged(fmt.Errorf("a frame of %d bytes", size))
	}
	// What is there is read before memory is taken for what the length says.
	b, err = io.ReadAll(io.LimitReader(f.in, int64(size)))
	if err == nil && len(b) < int(size) {
		err = io.ErrUnexpectedEOF
	}
	var sum [4]byte
	if err == nil {
		_, err = io.ReadFull(f.in, sum[:])
	}
	if err != nil {
		return damaged(err)
	}
	if crc32.Update(crc32.Checksum(head[:1], castagnoli), castagnoli, b) != binary.BigEndian.Uint32(sum[:]) {
		return damaged(errors.New("a checksum is wrong"))
	}
	return head[0], b, nil
}

// Head implements [Source].
func (f *file) Head() Head { return f.says.Head }

// Kinds implements [Source].
func (f *file) Kinds(ctx context.Context, kinds string, take Taker) error {
	return f.Each(ctx, func(ctx context.Context, partition int, b *store.Batch) error {
		var of store.Batch
		for _, m := range b.MetaRecords {
			if strings.IndexByte(kinds, m.Kind) >= 0 {
				of.MetaRecords = append(of.MetaRecords, m)
			}
		}
		if len(of.MetaRecords) == 0 {
			return nil
		}
		return take(ctx, partition, &of)
	})
}

// again goes back to where the file begins, if it was read.
func (f *file) again() error {
	if !f.read {
		f.read = true
		return nil
	}
	from, ok := f.from.(io.Seeker)
	if !ok {
		return errors.New("the backup can be read only once, and is to be read twice")
	}
	if _, err := from.Seek(0, io.SeekStart); err != nil {
		return err
	}
	return f.begin()
}

// Each implements [Source]. What it has called take for is all of it only if it returns no error.
func (f *file) Each(ctx context.Context, take Taker) error {
	if err := f.again(); err != nil {
		return err
	}
	var all tally
	for {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		kind, b, err := f.frame()
		switch {
		case err != nil:
			return err
		case kind == frameEnd:
			return f.ended(b, all.result())
		case kind != frameBatch || len(b) < 2 || int(binary.BigEndian.Uint16(b)) >= f.says.Partitions:
			return fmt.Errorf("%w: a frame of kind %q, of no partition that there is", ErrDamaged, kind)
		}
		partition := int(binary.BigEndian.Uint16(b))
		batch, err := codec.DecodeBatch(b[2:])
		if err == nil {
			err = all.add(partition, batch, nil)
		}
		if err != nil {
			return fmt.Errorf("%w: %w", ErrDamaged, err)
		}
		if err := take(ctx, partition, batch); err != nil {
			return err
		}
	}
}

// ended compares what was read with what the end of the file says.
func (f *file) ended(b []byte, read Result) error {
	var end Result
	if err := json.Unmarshal(b, &end); err != nil {
		return fmt.Errorf("%w: its end: %w", ErrDamaged, err)
	}
	if end != read {
		return fmt.Errorf("%w: what it holds is not what its end says", ErrDamaged)
	}
	return f.over()
}

// over is an error if something follows.
func (f *file) over() error {
	switch _, err := f.in.ReadByte(); { // it also checks the checksum of gzip
	case atEnd(err):
		return nil
	case err != nil:
		return fmt.Errorf("its end: %w", damage(err))
	}
	return fmt.Errorf("%w: something follows its end", ErrDamaged)
}

// atEnd reports whether a reader has come to its end. A place that does not answer may say why with an error
// that wraps the end of a connection: that is no end.
func atEnd(err error) bool {
	return err == io.EOF //nolint:errorlint // see above
}

// Verify reads a backup to its end.
func Verify(ctx context.Context, r io.Reader, p Progress) (Head, time.Time, Result, error) {
	f, err := openFile(r)
	if err != nil {
		return Head{}, time.Time{}, Result{}, err
	}
	var all tally
	err = f.Each(ctx, func(_ context.Context, partition int, b *store.Batch) error {
		return all.add(partition, b, p)
	})
	return f.says.Head, f.says.Taken, all.result(), err
}

// Restore fills a store that is not there yet with what a backup holds.
func Restore(ctx context.Context, r io.Reader, open Open, p Progress) (Result, error) {
	return RestoreAs(ctx, r, open, AsIs, p, nil)
}

// RestoreAs is Restore to a store that holds something else. If that is more than [AsIs], r must be an
// [io.Seeker], which stands where the backup begins: at 0.
func RestoreAs(ctx context.Context, r io.Reader, open Open, as Reshape, p Progress, then Arrived) (
	Result, error) {
	f, err := openFile(r)
	if err != nil {
		return Result{}, err
	}
	shaped, err := as(ctx, f)
	if err != nil {
		return Result{}, err
	}
	leave := func() error { return then.call(ctx, f.Head()) }
	return fill(ctx, shaped, p, filling{open: open, leave: leave})
}
