package servers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

// BinEnvPG names the directory of initdb and postgres, where PATH and Debian's
// folders should not decide.
const BinEnvPG = "DELTAD_PG_BIN"

// Postgres is a running PostgreSQL server.
type Postgres struct {
	// DSN is the superuser's connection string, to the database postgres.
	// Tests create databases of their own.
	DSN string

	proc *proc
}

// StartPostgres creates a new cluster and starts a server on it. It returns
// once a query has been answered.
func StartPostgres(ctx context.Context) (*Postgres, error) {
	bin, err := postgresBin()
	if err != nil {
		return nil, err
	}
	cred, err := postgresUser()
	if err != nil {
		return nil, err
	}
	ports, err := freePorts(ctx, 1)
	if err != nil {
		return nil, err
	}
	// A directory of its own directly under the temporary one: the user
	// postgres could not enter a directory of root's.
	dir, err := os.MkdirTemp("", "deltad-postgres-")
	if err != nil {
		return nil, fmt.Errorf("create directory for postgres: %w", err)
	}
	if cred != nil {
		if err := os.Chown(dir, int(cred.Uid), int(cred.Gid)); err != nil {
			return nil, errors.Join(fmt.Errorf("give %s to uid %d: %w", dir, cred.Uid, err), os.RemoveAll(dir))
		}
	}
	data := filepath.Join(dir, "data")
	command := func(name string, args ...string) *exec.Cmd {
		c := exec.Command(filepath.Join(bin, name), args...)
		c.Dir = dir
		c.Env = []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C", "TZ=UTC"}
		// SIGQUIT is PostgreSQL's immediate shutdown: unlike SIGKILL it takes
		// the backends along.
		c.SysProcAttr = ProcAttr(syscall.SIGQUIT, cred)
		return c
	}
	initdb := command("initdb", "-D", data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync")
	if out, err := initdb.CombinedOutput(); err != nil {
		return nil, errors.Join(fmt.Errorf("initdb in %s: %w: %s", data, err, out), os.RemoveAll(dir))
	}
	args := []string{
		"-D", data, "-k", dir, "-p", strconv.Itoa(ports[0]),
		"-c", "listen_addresses=127.0.0.1",
		"-c", "max_connections=200", "-c", "shared_buffers=32MB",
		// No fsync: tests kill the server, not the machine. But commits stay
		// synchronous, else a kill would lose the last ones.
		"-c", "fsync=off", "-c", "full_page_writes=off", "-c", "synchronous_commit=on",
	}
	s := &Postgres{
		DSN:  fmt.Sprintf("postgres://postgres@127.0.0.1:%d/postgres?sslmode=disable", ports[0]),
		proc: newProc("postgres", dir, func() *exec.Cmd { return command("postgres", args...) }),
	}
	if err := s.Restart(ctx); err != nil {
		return nil, errors.Join(err, s.Stop())
	}
	return s, nil
}

// Kill crashes the server: the postmaster dies at once, its backends a moment
// later, when they notice.
func (s *Postgres) Kill() { s.proc.end(syscall.SIGKILL, 0) }

// Restart starts the server after Kill and waits until it answers a query. A
// new postmaster refuses to start while backends of the killed one live, so it
// is tried again for as long as ctx allows.
func (s *Postgres) Restart(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, time.Minute, errors.New("one minute has passed"))
	defer cancel()
	for {
		if err := s.proc.start(); err != nil {
			return err
		}
		err := s.proc.ready(ctx, s.ping)
		if err == nil {
			return nil
		}
		tail := s.proc.logTail(1024)
		if !strings.Contains(tail, "postmaster") && !strings.Contains(tail, "shared memory block") {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// Stop ends the server and removes its data.
func (s *Postgres) Stop() error {
	s.proc.end(syscall.SIGQUIT, 10*time.Second)
	return s.proc.cleanup()
}

// LogTail returns about the last n bytes of the server's log.
func (s *Postgres) LogTail(n int64) string { return s.proc.logTail(n) }

func (s *Postgres) ping(ctx context.Context) error {
	c, err := pgx.Connect(ctx, s.DSN)
	if err != nil {
		return fmt.Errorf("connect to %s: %w", s.DSN, err)
	}
	_, err = c.Exec(ctx, "select 1")
	return errors.Join(err, c.Close(ctx))
}

// postgresBin finds the newest PostgreSQL server on this machine. Debian keeps
// its binaries out of PATH, in a folder for each major version.
func postgresBin() (string, error) {
	if dir := os.Getenv(BinEnvPG); dir != "" {
		return dir, nil
	}
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/postgres")
	if err != nil {
		return "", fmt.Errorf("look for PostgreSQL: %w", err)
	}
	best, newest := "", -1
	for _, f := range found {
		dir := filepath.Dir(f)
		v, err := strconv.Atoi(filepath.Base(filepath.Dir(dir)))
		if err == nil && v > newest {
			best, newest = dir, v
		}
	}
	if best != "" {
		return best, nil
	}
	if f, err := exec.LookPath("postgres"); err == nil {
		return filepath.Dir(f), nil
	}
	return "", fmt.Errorf("no PostgreSQL server found: install Debian's package postgresql, or name the directory of its binaries in %s", BinEnvPG)
}

// postgresUser returns whom PostgreSQL runs as: nil (the caller) unless the
// caller is root, whom it refuses.
func postgresUser() (*syscall.Credential, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		if u, err = user.Lookup("nobody"); err != nil {
			return nil, fmt.Errorf("find a user other than root to run PostgreSQL: %w", err)
		}
	}
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	if err != nil {
		return nil, fmt.Errorf("read uid of %s: %w", u.Username, err)
	}
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	if err != nil {
		return nil, fmt.Errorf("read gid of %s: %w", u.Username, err)
	}
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
}
