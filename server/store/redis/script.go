package redis

import (
	"cmp"
	"context"
	_ "embed" // the scripts
	"errors"
	"strconv"
	"sync"

	"github.com/redis/rueidis"
)

// The scripts. Each is sent by its checksum, and whole where the server does not know it yet.
var (
	//go:embed lua/apply.lua
	applyText string
	//go:embed lua/records.lua
	recordsText string
	//go:embed lua/firsts.lua
	firstsText string
	//go:embed lua/read.lua
	readText string
	//go:embed lua/values.lua
	valuesText string
	//go:embed lua/claim.lua
	claimText string
	//go:embed lua/renew.lua
	renewText string
	//go:embed lua/release.lua
	releaseText string
	//go:embed lua/join.lua
	joinText string
	//go:embed lua/retire.lua
	retireText string
	//go:embed lua/leave.lua
	leaveText string
	//go:embed lua/members.lua
	membersText string
	//go:embed lua/create.lua
	createText string
	//go:embed lua/upgrade.lua
	upgradeText string
	//go:embed lua/extend.lua
	extendText string
	//go:embed lua/upgraded.lua
	upgradedText string
	//go:embed lua/mend.lua
	mendText string

	mendScript     = rueidis.NewLuaScript(mendText)
	applyScript    = rueidis.NewLuaScript(applyText)
	recordsScript  = rueidis.NewLuaScriptReadOnly(recordsText)
	firstsScript   = rueidis.NewLuaScriptReadOnly(firstsText)
	readScript     = rueidis.NewLuaScriptReadOnly(readText)
	valuesScript   = rueidis.NewLuaScriptReadOnly(valuesText)
	joinScript     = rueidis.NewLuaScript(joinText)
	retireScript   = rueidis.NewLuaScript(retireText)
	leaveScript    = rueidis.NewLuaScript(leaveText)
	membersScript  = rueidis.NewLuaScript(membersText)
	createScript   = rueidis.NewLuaScript(createText)
	upgradeScript  = rueidis.NewLuaScript(upgradeText)
	extendScript   = rueidis.NewLuaScript(extendText)
	upgradedScript = rueidis.NewLuaScript(upgradedText)
	claimScript    = rueidis.NewLuaScript(claimText)
	renewScript    = rueidis.NewLuaScript(renewText)
	releaseScript  = rueidis.NewLuaScript(releaseText)
)

// atOnce is how many calls are on their way at most when all partitions are asked.
const atOnce = 256

// onOwners calls a script once for the owner of each partition, many at a time. An answer of nil is an empty
// one.
func (s *Store) onOwners(ctx context.Context, script *rueidis.Lua, partitions []int,
	args func(i int) []string) ([]string, error) {
	if err := s.checkAll(ctx, partitions); err != nil {
		return nil, err
	}
	answers := make([]string, len(partitions))
	err := each(len(partitions), func(i int) (err error) {
		answers[i], err = ask(ctx, s, func(ctx context.Context) (string, error) {
			got := script.Exec(ctx, s.client, s.keys[partitions[i]][keyOwner:keyOwner+1], args(i))
			return unlessNil(text(got))
		})
		return err
	})
	if err != nil {
		if !errors.Is(err, context.Canceled) {
			s.health.Note(err)
		}
		return nil, err
	}
	if len(answers) > 0 {
		s.health.Note(nil)
	}
	return answers, nil
}

// unlessNil makes the zero value of an answer of nil.
func unlessNil[T any](answer T, err error) (T, error) {
	if rueidis.IsRedisNil(err) {
		err = nil
	}
	return answer, err
}

// each calls f for 0 … n-1, many at a time, waits for all, and returns the first error: those of many
// partitions have one cause more often than not.
func each(n int, f func(i int) error) error {
	var wg sync.WaitGroup
	room, errs := make(chan struct{}, atOnce), make([]error, n)
	for i := range n {
		room <- struct{}{}
		wg.Go(func() {
			errs[i] = f(i)
			<-room
		})
	}
	wg.Wait()
	return cmp.Or(errs...)
}

// text is an answer of one value, a number too, as text.
func text(r rueidis.RedisResult) (string, error) {
	m, err := r.ToMessage()
	if err != nil {
		return "", err
	}
	if m.IsInt64() {
		n, err := m.ToInt64()
		return strconv.FormatInt(n, 10), err
	}
	return m.ToString()
}
