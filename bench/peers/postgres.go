package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"

	"github.com/jackc/pgx/v5"
)

// startPostgres starts a PostgreSQL server with its defaults, durability included, on an empty cluster, and
// returns where it is.
func startPostgres(ctx context.Context) (s *server, url, version string, err error) {
	bin, err := postgresBinaries()
	if err != nil {
		return nil, "", "", err
	}
	owner, err := postgresUser()
	if err != nil {
		return nil, "", "", err
	}
	dir, err := tempDir("postgres")
	if err != nil {
		return nil, "", "", err
	}
	data := filepath.Join(dir, "data")
	if err := initdb(ctx, bin, data, owner); err != nil {
		return nil, "", "", errors.Join(err, os.RemoveAll(dir))
	}
	ports, err := freePorts(1)
	if err != nil {
		return nil, "", "", errors.Join(err, os.RemoveAll(dir))
	}
	s, err = startServer(dir, owner, filepath.Join(bin, "postgres"), "-D", data, "-p", strconv.Itoa(ports[0]),
		"-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories=")
	if err != nil {
		return nil, "", "", err
	}
	url = fmt.Sprintf("postgres://postgres@127.0.0.1:%d/postgres?sslmode=disable", ports[0])
	if err := s.ready(ctx, func(ctx context.Context) error { return connects(ctx, url) }); err != nil {
		return nil, "", "", errors.Join(err, s.close())
	}
	return s, url, says(ctx, filepath.Join(bin, "postgres"), "--version"), nil
}

// connects reports whether the server takes a connection.
func connects(ctx context.Context, url string) error {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	return conn.Close(ctx)
}

// postgresBinaries is the folder with the server's programs: Debian keeps them off the PATH.
func postgresBinaries() (string, error) {
	if path, err := exec.LookPath("postgres"); err == nil {
		return filepath.Dir(path), nil
	}
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/postgres")
	if err != nil || len(found) == 0 {
		return "", absent{"there is no postgres: install PostgreSQL (Debian: postgresql)"}
	}
	return filepath.Dir(slices.Max(found)), nil
}

// postgresUser is who may run the server: it refuses to be root.
func postgresUser() (*syscall.Credential, error) {
	if os.Getuid() != 0 {
		return nil, nil
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		return nil, absent{"PostgreSQL does not run as root, and there is no user postgres"}
	}
	uid, err1 := strconv.ParseUint(u.Uid, 10, 32)
	gid, err2 := strconv.ParseUint(u.Gid, 10, 32)
	if err := errors.Join(err1, err2); err != nil {
		return nil, err
	}
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
}

// initdb makes an empty cluster.
func initdb(ctx context.Context, bin, data string, owner *syscall.Credential) error {
	if err := os.Mkdir(data, 0o700); err != nil {
		return err
	}
	if owner != nil {
		if err := os.Chown(data, int(owner.Uid), int(owner.Gid)); err != nil {
			return err
		}
	}
	cmd := exec.CommandContext(ctx, filepath.Join(bin, "initdb"), "-D", data, "-U", "postgres", "--auth=trust",
		"--no-instructions", "-E", "UTF8", "--locale=C")
	cmd.Dir = data
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: owner}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w: %s", err, out)
	}
	return nil
}
