package httptarget

import (
	"io"
	"net"
	"net/http"
	"syscall"
	"testing"
	"time"

	"github.com/carillonhq/carillon/internal/dispatch"
	"github.com/carillonhq/carillon/internal/partition"
)

// BenchmarkHTTP measures callbacks to a trivial server in the same process (goal P9: 15,000/s on 2 cores,
// both sides).
func BenchmarkHTTP(b *testing.B) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
	})}
	go func() { _ = server.Serve(l) }()
	defer server.Close()

	d := &fakeSink{reports: make(chan partition.Report, 1<<12), room: make(chan partition.Queue, 1<<12), back: make(chan string, 1)}
	d.hub = dispatch.New(d, dispatch.Options{Transports: map[string]dispatch.Transport{"http": New(Options{Allow: loopback})}})
	defer d.hub.Close()
	v := delivery(0, "http://"+l.Addr().String()+"/run")
	v.Run.Data.Bytes = make([]byte, 256)
	runs := make([]partition.Delivery, b.N)
	for i := range runs {
		runs[i] = v
		runs[i].Run.Token = delivery(i, "").Run.Token
	}
	b.ReportAllocs()
	b.ResetTimer()
	before := cpu(b)
	go func() {
		for len(runs) > 0 {
			n, _ := d.take(0, v.Queue, min(len(runs), 64), partition.Head{})
			d.hub.Deliver(runs[:n])
			if runs = runs[n:]; n == 0 {
				<-d.room
			}
		}
	}()
	for range b.N {
		if r := <-d.reports; r.Outcome == 0 {
			b.Fatal(r.Message)
		}
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "callbacks/s")
	b.ReportMetric((cpu(b)-before).Seconds()*1e6/float64(b.N), "cpu-µs/op")
}

// cpu is the processor time that this process has used: steadier than a rate on a shared machine.
func cpu(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
