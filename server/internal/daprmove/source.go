package daprmove

import (
	"context"
	"crypto/tls"
	"encoding/gob"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/carillonhq/carillon/server/internal/daprrecord"
	"github.com/carillonhq/carillon/server/internal/etcdfolder"
)

// Access is how a live etcd is reached.
type Access struct {
	TLS      *tls.Config
	Username string
	Password string
}

// ErrRunning is the cause of an error about an etcd on which Dapr's scheduler is at work.
var ErrRunning = errors.New("Dapr's scheduler is at work on it") //nolint:staticcheck // a name

// Read returns what a source has: the data folder of Dapr's scheduler, or those of several of its members; a
// file of `dapr scheduler export`; or the addresses of a live etcd, http://HOST:PORT or https://HOST:PORT.
// Nothing there is changed.
func Read(ctx context.Context, sources []string, a Access) (*State, error) {
	switch {
	case len(sources) == 0:
		return nil, errors.New("no source is given")
	case !slices.ContainsFunc(sources, notEtcd):
		if err := noPasswords(sources); err != nil {
			return nil, err
		}
		return readEtcd(ctx, sources, a)
	case !slices.ContainsFunc(sources, notFolder):
		return readFolders(ctx, sources)
	case len(sources) == 1 && notEtcd(sources[0]):
		return readFile(sources[0])
	}
	return nil, fmt.Errorf("%q are of several kinds: give one file, or folders, or addresses of one etcd", sources)
}

func notEtcd(source string) bool {
	return !strings.HasPrefix(source, "http://") && !strings.HasPrefix(source, "https://")
}

// noPasswords refuses addresses with a user or a password: they would be in the log, and in the job that says
// how far an import is. The error does not show them.
func noPasswords(endpoints []string) error {
	for _, e := range endpoints {
		if u, err := url.Parse(e); err != nil {
			return errors.New("an address of the etcd is no URL such as http://127.0.0.1:2379")
		} else if u.User != nil {
			return fmt.Errorf("the address of %s has a user or a password: give them as CARILLON_ETCD_USERNAME and "+
				"CARILLON_ETCD_PASSWORD", u.Host)
		}
	}
	return nil
}

func notFolder(source string) bool {
	info, err := os.Stat(source)
	return err != nil || !info.IsDir()
}

// member is the folder of a member of etcd.
type member struct {
	*etcdfolder.Folder
	dir     string
	history History
}

// readFolders reads the folders of members of one cluster; the newest counts.
func readFolders(ctx context.Context, dirs []string) (*State, error) {
	var members []member
	for _, dir := range dirs {
		found, err := membersIn(dir)
		if err != nil {
			return nil, err
		}
		for _, dir := range found {
			f, err := etcdfolder.Read(ctx, dir, "dapr/")
			if err != nil {
				return nil, err
			}
			members = append(members, member{f, dir, historyOf(f.Settled, f.SettledPairs)})
		}
	}
	newest := slices.MaxFunc(members, func(a, b member) int {
		if a.Position.Less(b.Position) {
			return -1
		}
		return 1
	})
	if err := oneScheduler(members, newest); err != nil {
		return nil, err
	}
	s := decode(rawOf(newest.Pairs))
	s.Origin = fmt.Sprintf("%s at revision %d", newest.dir, newest.Revision)
	s.Cluster, s.History = strconv.FormatUint(newest.Cluster, 16), newest.history
	return s, nil
}

// oneScheduler returns an error unless what is stored shows that all are members of one cluster. One without
// jobs may be of any: nothing of it is left out.
func oneScheduler(members []member, newest member) error {
	known := map[string]bool{newest.dir: true}
	for grown := true; grown; {
		grown = false
		for _, a := range members {
			for _, b := range members {
				switch a.kinOf(b) {
				case other:
					return fmt.Errorf("%s and %s are of two schedulers: import one after the other", a.dir, b.dir)
				case same:
					if known[a.dir] && !known[b.dir] {
						known[b.dir], grown = true, true
					}
				}
			}
		}
	}
	for _, m := range members {
		if !known[m.dir] && len(m.Pairs) > 0 {
			return fmt.Errorf("%s and %s have nothing in common that tells whether they are of one scheduler, which has "+
				"been at work for long without one of them: if so, give %s alone, which is newer; if not, import one after the other",
				m.dir, newest.dir, newest.dir)
		}
	}
	return nil
}

// kinOf compares two folders.
func (m member) kinOf(o member) kinship {
	sameLog, differ := m.Log.Compare(o.Log)
	switch {
	case m.Cluster != o.Cluster, differ:
		return other
	case sameLog:
		return same
	}
	return m.history.kinOf(o.history)
}

// membersIn returns the data folders of etcd in a folder: itself, or where Dapr's scheduler keeps them, in
// Kubernetes and elsewhere.
func membersIn(dir string) ([]string, error) {
	for _, pattern := range []string{"member", filepath.Join("dapr-0.1", "member"),
		filepath.Join("*", "dapr-0.1", "member")} {
		found, err := filepath.Glob(filepath.Join(escapeGlob(dir), pattern))
		if err != nil {
			return nil, err
		}
		for i, member := range found {
			found[i] = filepath.Dir(member)
		}
		if len(found) > 0 {
			return found, nil
		}
	}
	return nil, fmt.Errorf("%s: it is no data folder of Dapr's scheduler: there is no folder member, dapr-0.1/member or "+
		"ID/dapr-0.1/member in it", dir)
}

func escapeGlob(path string) string {
	return strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`).Replace(path)
}

func rawOf(pairs []*mvccpb.KeyValue) raw {
	r := raw{map[string][]byte{}, map[string][]byte{}}
	for _, p := range pairs {
		key := string(p.GetKey())
		if strings.HasPrefix(key, daprrecord.JobPrefix) {
			r.jobs[key] = p.GetValue()
		} else if strings.HasPrefix(key, daprrecord.CounterPrefix) {
			r.counters[key] = p.GetValue()
		}
	}
	return r
}

// exported is the content of a file of `dapr scheduler export`, by whole keys.
type exported struct {
	Jobs     map[string][]byte
	Counters map[string][]byte
}

func readFile(path string) (*State, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var in exported
	if err := gob.NewDecoder(f).Decode(&in); err != nil {
		return nil, fmt.Errorf("%s: it is no file of dapr scheduler export: %w", path, err)
	}
	s := decode(raw{in.Jobs, in.Counters})
	s.Origin = path
	return s, nil
}

// page is how many keys are read at once.
const page = 1000

// dialTimeout bounds how long a live etcd may be silent.
const dialTimeout = 10 * time.Second

func isHTTPS(endpoint string) bool { return strings.HasPrefix(endpoint, "https://") }

// liveEtcd connects to a live etcd. The error is what waiting does not mend; explain adds to later errors
// what else is in the way.
func liveEtcd(ctx context.Context, endpoints []string, a Access) (c *clientv3.Client,
	explain func(error) error, err error) {
	if a.TLS == nil && slices.ContainsFunc(endpoints, isHTTPS) {
		a.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	in := obstacles(ctx, endpoints, a.TLS)
	if in.stays {
		return nil, nil, in.err
	}
	explain = func(err error) error {
		if errors.Is(err, context.DeadlineExceeded) && in.err != nil {
			return fmt.Errorf("%w: %w", err, in.err)
		}
		return err
	}
	c, err = clientv3.New(clientv3.Config{Endpoints: endpoints, TLS: a.TLS, Username: a.Username,
		Password: a.Password, DialTimeout: dialTimeout, Context: ctx, Logger: zap.NewNop()})
	return c, explain, explain(err)
}

func readEtcd(ctx context.Context, endpoints []string, a Access) (*State, error) {
	c, explain, err := liveEtcd(ctx, endpoints, a)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", strings.Join(endpoints, ","), err)
	}
	defer c.Close()
	s, err := stateOf(ctx, c)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", strings.Join(endpoints, ","), explain(err))
	}
	s.Origin = fmt.Sprintf("%s at revision %s", strings.Join(endpoints, ","), s.Origin)
	return s, nil
}

// stateOf reads everything as of one revision, which is the state's origin.
func stateOf(ctx context.Context, c *clientv3.Client) (*State, error) {
	const prefix = "dapr/"
	var pairs []*mvccpb.KeyValue
	var cluster uint64
	from, revision := prefix, int64(0)
	for {
		asked, cancel := context.WithTimeout(ctx, dialTimeout)
		got, err := c.Get(asked, from, clientv3.WithRange(clientv3.GetPrefixRangeEnd(prefix)),
			clientv3.WithLimit(page), clientv3.WithRev(revision))
		cancel()
		if err != nil {
			return nil, err
		}
		pairs = append(pairs, got.Kvs...)
		if revision == 0 {
			revision, cluster = got.Header.GetRevision(), got.Header.GetClusterId()
		}
		if !got.More {
			break
		}
		from = string(got.Kvs[len(got.Kvs)-1].GetKey()) + "\x00"
	}
	s := decode(rawOf(pairs))
	s.Origin, s.Cluster = strconv.FormatInt(revision, 10), strconv.FormatUint(cluster, 16)
	s.History = historyOf(revision, pairs)
	for _, p := range pairs {
		if id, leads := strings.CutPrefix(string(p.GetKey()), daprrecord.LeadershipPrefix); leads {
			s.Running = append(s.Running, id)
		}
	}
	return s, nil
}
