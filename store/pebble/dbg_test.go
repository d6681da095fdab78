package pebble_test
import ("testing";"os";"fmt";"time";"runtime/pprof";"github.com/carillonhq/carillon/store/pebble";"strconv")
func BenchmarkDbg(b *testing.B){
 mt,_:=strconv.Atoi(os.Getenv("MT")); o:=pebble.Options{MemTableBytes: mt<<20}
 dir,copied:=b.TempDir(),b.TempDir()
 s,_:=pebble.Open(dir,o); put(b,own(b,s,64),600000,64,farFuture)
 os.CopyFS(copied,os.DirFS(dir)); s.Close()
 f,_:=os.Create("/tmp/pb/open.prof"); pprof.StartCPUProfile(f)
 t,c:=time.Now(),cpu(); o.Events.Log=func(x string){fmt.Println(time.Since(t).Milliseconds(), x[:min(len(x),110)])}; s,err:=pebble.Open(copied,o); fmt.Println(err,"MT",mt,time.Since(t),cpu()-c)
 t,c=time.Now(),cpu(); sh:=own(b,s,64); scan(b,sh,1500); fmt.Println("load",time.Since(t),cpu()-c)
 pprof.StopCPUProfile(); s.Close()
}
