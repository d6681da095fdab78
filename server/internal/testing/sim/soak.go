package sim

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/bits"
	"runtime"
	"sync"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/dispatch"
	sessions "github.com/carillonhq/carillon/server/internal/dispatch/worker"
	"github.com/carillonhq/carillon/server/internal/engine"
	"github.com/carillonhq/carillon/server/store"
	"github.com/carillonhq/carillon/server/store/memory"
)

// SoakOptions say how long a soak lasts and how much comes in.
type SoakOptions struct {
	Seed  uint64
	Lasts time.Duration
	Rate  int           // jobs a second
	Peak  int           // jobs a second in the minute in the middle
	Keep  time.Duration // how long a finished run is kept
	Logf  func(format string, args ...any)
}

// Sample is what there was at one moment of a soak.
type Sample struct {
	At         time.Duration
	Heap       uint64 // bytes that are in use, after a collection
	Goroutines int
	Resident   int // jobs in memory
	Left       int // jobs put and not yet done
}

// SoakResult is what a soak came to.
type SoakResult struct {
	Jobs, Early, Twice, Lost int
	Latest                   time.Duration // of the first attempts
	Records, History         int           // that the store has at the end
	Samples                  []Sample
	Before, After            Sample
}

// Soak lives through a long time of plain load: one-shots that come in at a steady rate, with a minute of
// peak in the middle, and run within the minute. It must be called in a bubble, which it leaves empty. No
// history is kept of it: a bit for each job says that it ran, and a second attempt or an early one is noted
// when it comes.
func Soak(o SoakOptions) (SoakResult, error) {
	s := &soak{o: o, chance: chance{o.Seed}, ran: bitmap{}, over: make(chan struct{})}
	s.store = memory.New(memory.Options{Partitions: 8, MACKey: macKey(),
		Nonce: (&dice{chance: s.chance, what: "nonce"}).uint64})
	s.engine = engine.New(engine.Config{Store: s.store, Random: &dice{chance: s.chance, what: "dice"}})
	s.hub = dispatch.New(s.engine, dispatch.Options{Accept: sessions.Accept(sessions.Options{})})
	ctx := context.Background()
	if err := s.engine.Start(ctx, s.hub); err != nil {
		return s.result, err
	}
	if err := s.live(ctx); err != nil {
		return s.result, err
	}
	if err := s.hub.Close(); err != nil {
		return s.result, err
	}
	return s.result, s.engine.Stop(ctx)
}

type soak struct {
	o      SoakOptions
	chance chance
	store  *memory.Store
	engine *engine.Engine
	hub    *dispatch.Hub
	over   chan struct{} // closed when all has been put and had time to run

	mu     sync.Mutex
	ran    bitmap
	put    int
	done   int
	result SoakResult
}

// bitmap has a bit for each job.
type bitmap map[int]*[1 << 10]uint64

// set sets a bit; it reports whether it was set before.
func (b bitmap) set(i int) bool {
	page := b[i>>16]
	if page == nil {
		page = new([1 << 10]uint64)
		b[i>>16] = page
	}
	word, bit := &page[i>>6&(1<<10-1)], uint64(1)<<(i&63)
	before := *word&bit != 0
	*word |= bit
	return before
}

func (b bitmap) count() (n int) {
	for _, page := range b {
		for _, word := range page {
			n += bits.OnesCount64(word)
		}
	}
	return n
}

// live puts jobs, second by second, and waits until all is over.
func (s *soak) live(ctx context.Context) error {
	var workers sync.WaitGroup
	for i := range 4 {
		workers.Go(func() { s.work(ctx, i) })
	}
	time.Sleep(time.Second)
	s.result.Before = s.sample(0)
	seconds := int(s.o.Lasts / time.Second)
	start := time.Now()
	for n := range seconds {
		rate := s.o.Rate
		if n >= seconds/2 && n < seconds/2+60 {
			rate = s.o.Peak
		}
		if err := s.second(ctx, rate); err != nil {
			return err
		}
		time.Sleep(time.Until(start.Add(time.Duration(n+1) * time.Second)))
		if every := max(seconds/48, 10); n%every == every-1 {
			s.result.Samples = append(s.result.Samples, s.sample(time.Since(start)))
		}
	}
	// for what is still due, and for the history to end, which goes in small steps
	time.Sleep(time.Hour + s.o.Keep)
	close(s.over)
	workers.Wait()
	return s.look(ctx)
}

// second puts the jobs of one second.
func (s *soak) second(ctx context.Context, rate int) error {
	luck := s.chance.now("second")
	jobs := make([]carillon.Job, rate)
	now := time.Now()
	for i := range jobs {
		number := s.put + i
		due := now.Add(between(luck, 0, time.Minute))
		data := binary.BigEndian.AppendUint64(nil, uint64(number))
		jobs[i] = carillon.Job{
			Name: fmt.Sprintf("soak/%d", number), Target: carillon.WorkerQueue("soak"), Due: carillon.At(due),
			Data: carillon.Bytes(binary.BigEndian.AppendUint64(data, uint64(due.UnixNano())),
				carillon.ContentTypeBinary),
			History: carillon.History{Runs: 1, Keep: s.o.Keep},
		}
	}
	errs := make(chan error, len(jobs))
	for i := range jobs {
		go func() {
			_, err := s.engine.PutJob(ctx, jobs[i])
			errs <- err
		}()
	}
	for range jobs {
		if err := <-errs; err != nil {
			return fmt.Errorf("put: %w", err)
		}
	}
	s.mu.Lock()
	s.put += rate
	s.mu.Unlock()
	return nil
}

// work takes runs until all is over.
func (s *soak) work(ctx context.Context, i int) {
	session, err := s.hub.Connect(ctx, carillon.Hello{Queues: []string{"soak"},
		WorkerID: fmt.Sprintf("worker%d", i)})
	if err != nil {
		return // nothing will run, which shows
	}
	go func() {
		<-s.over
		_ = session.Close() // all is done
	}()
	send := carillon.WorkRequest{Credits: []carillon.Credit{{Queue: "soak", N: 512}}}
	for session.Send(ctx, send) == nil {
		msg, err := session.Receive(ctx)
		if err != nil {
			return
		}
		send = carillon.WorkRequest{}
		for k := range msg.Runs {
			s.note(&msg.Runs[k])
			send.Results = append(send.Results,
				carillon.Result{Token: msg.Runs[k].Token, RunID: msg.Runs[k].ID, Outcome: carillon.OutcomeSuccess})
		}
		if n := len(msg.Runs); n > 0 {
			send.Credits = []carillon.Credit{{Queue: "soak", N: n}}
		}
	}
}

// note holds an attempt against what was asked for.
func (s *soak) note(r *carillon.Run) {
	s.mu.Lock()
	defer s.mu.Unlock()
	number := int(binary.BigEndian.Uint64(r.Data.Bytes))
	late := time.Since(time.Unix(0, int64(binary.BigEndian.Uint64(r.Data.Bytes[8:]))))
	if late < 0 {
		s.result.Early++
	}
	s.result.Latest = max(s.result.Latest, late)
	if s.ran.set(number) {
		s.result.Twice++
	}
	s.done++
}

func (s *soak) sample(at time.Duration) Sample {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	s.mu.Lock()
	defer s.mu.Unlock()
	x := Sample{At: at, Heap: m.HeapAlloc, Goroutines: runtime.NumGoroutine(),
		Resident: s.engine.Stats().Resident, Left: s.put - s.done}
	if s.o.Logf != nil {
		s.o.Logf("%v: %d jobs, %d left, %d resident, heap %.1f MiB, %d goroutines", at.Round(time.Second),
			s.put, x.Left, x.Resident,
			float64(x.Heap)/(1<<20), x.Goroutines)
	}
	return x
}

// look counts what is left when all is over.
func (s *soak) look(ctx context.Context) error {
	s.result.After = s.sample(s.o.Lasts)
	s.result.Jobs, s.result.Lost = s.put, s.put-s.ran.count()
	for p := range s.store.Meta().Partitions {
		sh, err := s.store.Shard(p, store.Term{})
		if err != nil {
			return err
		}
		records, err := sh.List(ctx, store.ListQuery{Limit: 1 << 20})
		if err != nil {
			return err
		}
		s.result.Records += len(records)
	}
	return nil
}
