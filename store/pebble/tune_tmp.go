package pebble
import ("os";"strconv";pebbledb "github.com/cockroachdb/pebble/v2")
func env(n string, d int) int { if v,err:=strconv.Atoi(os.Getenv(n)); err==nil {return v}; return d }
func tune(p *pebbledb.Options) {
 mt:=env("MT",0); if mt>0 { p.CacheSize += 3*(int64(mt)<<20 - int64(p.MemTableSize)); p.MemTableSize=uint64(mt)<<20 }
 p.L0CompactionThreshold=env("L0",p.L0CompactionThreshold)
 p.L0CompactionFileThreshold=env("L0F",p.L0CompactionFileThreshold)
 p.LBaseMaxBytes=int64(env("LB",64))<<20
 if t:=env("TF",0); t>0 { for i:=range p.TargetFileSizes { p.TargetFileSizes[i]=int64(t)<<20 } }
 if t:=env("BS",0); t>0 { for i:=range p.Levels { p.Levels[i].BlockSize=t<<10 } }
 if env("NC",0)==1 { p.ApplyCompressionSettings(func() pebbledb.DBCompressionSettings { return pebbledb.DBCompressionNone }) }
 if env("BAL",0)==1 { p.ApplyCompressionSettings(func() pebbledb.DBCompressionSettings { return pebbledb.DBCompressionBalanced }) }
 if env("FMV",0)>0 { p.FormatMajorVersion=pebbledb.FormatMajorVersion(env("FMV",0)) }
}
