package realserver

import (
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// setUp puts the command into a group of its own, lets it die with this process, and run as its user.
func (p *Program) setUp(t testing.TB, cmd *exec.Cmd) {
	t.Helper()
	end := p.End
	if end == 0 {
		end = syscall.SIGKILL
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: end}
	if p.User != "" {
		uid, gid := lookUp(t, p.User)
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	}
}

// lookUp is the ids of a user of this machine.
func lookUp(t testing.TB, name string) (uid, gid int) {
	t.Helper()
	u, err := user.Lookup(name)
	if err != nil {
		Missing(t, err.Error())
	}
	for text, id := range map[string]*int{u.Uid: &uid, u.Gid: &gid} {
		n, err := strconv.ParseUint(text, 10, 32)
		if err != nil {
			t.Fatalf("user %s: %v", name, err)
		}
		*id = int(n)
	}
	return uid, gid
}

// killGroup kills whatever is left of the group that a process began.
func killGroup(p *os.Process) {
	_ = syscall.Kill(-p.Pid, syscall.SIGKILL) // nobody is there: that is what is wanted
}

// stopped reports whether all threads of a process are stopped.
func stopped(pid int) bool {
	threads, err := filepath.Glob("/proc/" + strconv.Itoa(pid) + "/task/*/stat")
	if err != nil || len(threads) == 0 {
		return false
	}
	return !slices.ContainsFunc(threads, func(name string) bool {
		line, err := os.ReadFile(name)
		if err != nil {
			return !os.IsNotExist(err) // one that has ended has stopped
		}
		_, rest, _ := strings.Cut(string(line), ") ") // behind the name of the program
		return !strings.HasPrefix(rest, "T")
	})
}
