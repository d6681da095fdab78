package pebble_test
import ("testing";"os";"fmt";"path/filepath";"github.com/carillonhq/carillon/store/pebble")
func TestDbg(t *testing.T){
 dir:=made(t)
 logs:=files(t,dir,"*.log"); 
 for _,l:=range logs { st,_:=os.Stat(l); fmt.Println(filepath.Base(l),st.Size()) }
 name:=logs[len(logs)-1]
 orig,_:=os.ReadFile(name)
 last:=0; for i,b:=range orig { if b!=0 {last=i} }
 fmt.Println("content",last)
 for _,frac:=range []float64{0.02,0.1,0.3,0.5,0.7,0.9} {
  d2:=filepath.Join(t.TempDir(),"s"); os.CopyFS(d2, os.DirFS(dir))
  b:=append([]byte(nil),orig...); b[int(float64(last)*frac)]^=0x5a
  os.WriteFile(filepath.Join(d2,"db",filepath.Base(name)),b,0o600)
  s,err:=pebble.Open(d2,pebble.Options{})
  if err!=nil { fmt.Println(frac,err); continue }
  fmt.Println(frac,"opened; batch",present(t,own(t,s,1)[0])); s.Close()
 }
}
