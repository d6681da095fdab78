package etcdfolder

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.etcd.io/etcd/server/v3/storage/wal/walpb"
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
)

// logFiles is what the files of a log have.
type logFiles struct {
	metadata []byte
	commit   uint64 // up to which entry the cluster has agreed, as far as the member knew
	snaps    []*walpb.Snapshot
	first    uint64 // index of the first entry since the last gap; 0: there is none
	last     Position
	sums     []uint64 // of the entries from first on
	after    uint64
	entries  []*raftpb.Entry // those with an index greater than after
}

// errLog begins errors about the log.
var errLog = errors.New("the log cannot be read")

// readLog reads all files of the log, with the entries after an index: also what may not have been
// acknowledged, because a member that starts alone would count it as well. The last record may have been cut
// off by the end of the process.
func readLog(dir string, after uint64) (*logFiles, error) {
	paths, err := filepath.Glob(filepath.Join(escapeGlob(dir), "*.wal"))
	if err != nil || len(paths) == 0 {
		return nil, fmt.Errorf("%w: there are no files *.wal in %s: %w", errLog, dir, errors.Join(err, fs.ErrNotExist))
	}
	slices.Sort(paths)
	l := &logFiles{after: after}
	crc, before := uint32(0), uint64(0)
	for i, path := range paths {
		var seq, index uint64
		if _, err := fmt.Sscanf(filepath.Base(path), "%016x-%016x.wal", &seq, &index); err != nil {
			return nil, fmt.Errorf("%w: %s has no name of a file of a log", errLog, path)
		}
		if i > 0 && seq != before+1 {
			return nil, fmt.Errorf("%w: the file before %s is missing", errLog, path)
		}
		before = seq
		if crc, err = l.readFile(path, crc, i == len(paths)-1); err != nil {
			return nil, fmt.Errorf("%w: %s: %w", errLog, path, err)
		}
	}
	l.snaps = slices.DeleteFunc(l.snaps, func(s *walpb.Snapshot) bool { return s.GetIndex() > l.commit })
	return l, nil
}

func escapeGlob(path string) string {
	var b []byte
	for _, c := range []byte(path) {
		if strings.IndexByte(`\*?[`, c) >= 0 {
			b = append(b, '[', c, ']')
			continue
		}
		b = append(b, c)
	}
	return string(b)
}

// walFile is a file as the decoder wants it.
type walFile struct{ *os.File }

func (f walFile) FileInfo() (fs.FileInfo, error) { return f.Stat() }

// readFile reads one file. crc is that of what came before it; that of what came up to its end is returned.
func (l *logFiles) readFile(path string, crc uint32, isLast bool) (uint32, error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	d := wal.NewDecoder(walFile{f})
	d.UpdateCRC(crc)
	for {
		var rec walpb.Record
		err := d.Decode(&rec)
		if errors.Is(err, io.EOF) || isLast && errors.Is(err, io.ErrUnexpectedEOF) {
			break
		}
		if err == nil {
			err = l.take(d, &rec)
		}
		if err != nil {
			return 0, fmt.Errorf("after %d bytes: %w", d.LastOffset(), err)
		}
	}
	if isLast {
		return 0, l.ends(f, d.LastOffset())
	}
	return d.LastCRC(), nil
}

// take takes one record.
func (l *logFiles) take(d wal.Decoder, rec *walpb.Record) error {
	switch rec.GetType() {
	case wal.EntryType:
		var e raftpb.Entry
		if err := proto.Unmarshal(rec.GetData(), &e); err != nil {
			return err
		}
		l.takeEntry(&e)
	case wal.StateType:
		var s raftpb.HardState
		if err := proto.Unmarshal(rec.GetData(), &s); err != nil {
			return err
		}
		l.commit = s.GetCommit()
	case wal.SnapshotType:
		var s walpb.Snapshot
		if err := proto.Unmarshal(rec.GetData(), &s); err != nil {
			return err
		}
		l.snaps = append(l.snaps, &s)
	case wal.MetadataType:
		if l.metadata != nil && !bytes.Equal(l.metadata, rec.GetData()) {
			return wal.ErrMetadataConflict
		}
		l.metadata = rec.GetData()
	case wal.CrcType:
		if crc := d.LastCRC(); crc != 0 && rec.GetCrc() != crc {
			return fmt.Errorf("the end of the file before it is missing: %w", wal.ErrCRCMismatch)
		}
		d.UpdateCRC(rec.GetCrc())
	default:
		return fmt.Errorf("there is a record of the type %d, which is unknown", rec.GetType())
	}
	return nil
}

// takeEntry takes an entry in the place of the one that had its index and of those after that.
func (l *logFiles) takeEntry(e *raftpb.Entry) {
	index := e.GetIndex()
	if l.first == 0 || index < l.first || index > l.last.Index+1 { // what a snapshot replaces is not in the log
		l.first, l.sums, l.entries = index, nil, nil
	}
	l.sums = append(l.sums[:index-l.first], sumOf(e))
	for n := len(l.entries); n > 0 && l.entries[n-1].GetIndex() >= index; n-- {
		l.entries = l.entries[:n-1]
	}
	if index > l.after {
		l.entries = append(l.entries, e)
	}
	l.last = Position{e.GetTerm(), index}
}

// sumOf returns a hash of an entry. A request has an id with the time in it, so that no other cluster has the
// same; the rest is the same in all clusters that are begun with the same flags.
func sumOf(e *raftpb.Entry) uint64 {
	if e.GetType() != raftpb.EntryNormal || len(e.GetData()) == 0 {
		return 0
	}
	h := sha256.New()
	fmt.Fprintf(h, "%d %d %s", e.GetTerm(), e.GetIndex(), e.GetData())
	return binary.LittleEndian.Uint64(h.Sum(nil)) | 1
}

// agreed returns the hashes of the entries up to an index.
func (l *logFiles) agreed(index uint64) Log {
	if l.first == 0 || index < l.first {
		return Log{}
	}
	return Log{l.first, l.sums[:min(uint64(len(l.sums)), index-l.first+1)]}
}

// ends returns an error if entries follow the last record that can be read, which is where the log ends if it
// was not damaged.
func (l *logFiles) ends(f *os.File, offset int64) error {
	const frame = 8 // the size of what stands before a record, and of what its length is rounded up to
	rest, err := io.ReadAll(io.NewSectionReader(f, offset, 1<<40))
	if err != nil {
		return err
	}
	rest = bytes.TrimRight(rest, "\x00")
	for at := frame; at+frame < len(rest); at += frame {
		size := binary.LittleEndian.Uint64(rest[at:]) & (1<<56 - 1)
		if size == 0 || size > uint64(len(rest)-at-frame)+frame {
			continue
		}
		var rec walpb.Record
		var e raftpb.Entry
		body := rest[at+frame : min(len(rest), at+frame+int(size))]
		if proto.Unmarshal(body, &rec) == nil && rec.GetType() == wal.EntryType &&
			proto.Unmarshal(rec.GetData(), &e) == nil && e.GetTerm() >= l.last.Term && e.GetIndex() > l.last.Index {
			return fmt.Errorf("it is damaged after %d bytes, and entries follow, such as %d; if the machine lost power "+
				"then, start Dapr's scheduler with it and stop it: it leaves out what was not on disk", offset, e.GetIndex())
		}
	}
	return nil
}
