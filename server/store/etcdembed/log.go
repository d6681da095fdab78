package etcdembed

import (
	"fmt"
	"net"
	"slices"
	"strings"

	"go.uber.org/zap/zapcore"

	"github.com/carillonhq/carillon/server/store"
)

// zapCore passes what etcd logs to the store's log: warnings as debug messages, since most are about what is
// slow or away for a moment, errors as warnings. After a fatal message, which is an error, zap ends the
// process.
type zapCore struct {
	log  store.Logger
	with []zapcore.Field
}

var _ zapcore.Core = zapCore{}

// Enabled implements [zapcore.Core].
func (zapCore) Enabled(l zapcore.Level) bool { return l >= zapcore.WarnLevel }

// With implements [zapcore.Core].
func (c zapCore) With(fields []zapcore.Field) zapcore.Core {
	return zapCore{c.log, append(slices.Clip(c.with), fields...)}
}

// Check implements [zapcore.Core].
func (c zapCore) Check(e zapcore.Entry, checked *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if c.Enabled(e.Level) {
		return checked.AddCore(e, c)
	}
	return checked
}

// Write implements [zapcore.Core].
func (c zapCore) Write(e zapcore.Entry, fields []zapcore.Field) error {
	values := zapcore.NewMapObjectEncoder()
	for _, f := range append(slices.Clip(c.with), fields...) {
		f.AddTo(values)
	}
	args := make([]any, 0, 2*len(values.Fields))
	for name, value := range values.Fields {
		args = append(args, name, value)
	}
	// that the listeners are closed is reported as an error when the member ends
	ends := strings.Contains(fmt.Sprint(values.Fields["error"]), net.ErrClosed.Error())
	switch {
	case e.Level >= zapcore.DPanicLevel:
		c.log.Error("etcd: "+e.Message, args...)
	case e.Level == zapcore.ErrorLevel && !ends:
		c.log.Warn("etcd: "+e.Message, args...)
	default:
		c.log.Debug("etcd: "+e.Message, args...)
	}
	return nil
}

// Sync implements [zapcore.Core].
func (zapCore) Sync() error { return nil }
