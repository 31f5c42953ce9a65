// Package tcpproxy stands between a client and a PostgreSQL server and breaks
// the connections between them at the moments that matter.
//
// It follows the client's side of the protocol far enough to know the SQL of
// each statement and the transaction that it belongs to, so that a rule can
// say "the COMMIT of the transaction that publishes a run". It changes nothing
// that passes.
package tcpproxy

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Fault is what befalls a statement.
type Fault int

// The faults. After a cut the client sees a broken connection; in a black hole
// neither side ever hears of the other again, and both believe the connection
// whole.
const (
	CutBefore  Fault = iota // the server never sees the statement
	CutAfter                // the server answers it, and the client does not hear
	BlackHole               // the statement and all that follows is swallowed
	HoleAfter               // the server gets it, and nothing passes any more
	KillBefore              // Kill is called with the backend's process id, then it goes on
	DelayThen               // it goes on after Delay
)

func (f Fault) String() string {
	return [...]string{"cut before", "cut after", "black hole", "black hole after", "backend killed", "delayed"}[f]
}

// Rule says which statements meet a fault.
type Rule struct {
	// Statement is text of the statement, or of any statement of the
	// transaction where Commit is set. Empty is all.
	Statement string
	// Commit hits the COMMIT of the transaction instead of the statement.
	Commit bool
	Fault  Fault
	// Times is how many statements are hit, 0 for all.
	Times int
	Delay time.Duration
}

type rule struct {
	Rule
	hits int
}

// Proxy is a running proxy. Close it when done.
type Proxy struct {
	// Addr is where it listens.
	Addr string
	// Kill ends a backend; needed by KillBefore.
	Kill func(pid uint32)

	target string
	ln     net.Listener
	ctx    context.Context
	stop   context.CancelFunc
	wg     sync.WaitGroup

	mu    sync.Mutex
	rules []*rule
}

// New starts a proxy before the server at target, host:port.
func New(target string) (*Proxy, error) {
	var lc net.ListenConfig
	ln, err := lc.Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	p := &Proxy{Addr: ln.Addr().String(), target: target, ln: ln}
	p.ctx, p.stop = context.WithCancel(context.Background())
	p.wg.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			p.wg.Go(func() { p.serve(c) })
		}
	})
	return p, nil
}

// Close ends every connection.
func (p *Proxy) Close() {
	p.stop()
	_ = p.ln.Close()
	p.wg.Wait()
}

// Add installs a rule; the first that hits wins.
func (p *Proxy) Add(r Rule) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rules = append(p.rules, &rule{Rule: r})
}

// Clear removes every rule. Black holes stay what they are. It returns how many
// statements were hit.
func (p *Proxy) Clear() (hits int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, r := range p.rules {
		hits += r.hits
	}
	p.rules = nil
	return hits
}

// Hits is how many statements the rules have hit so far.
func (p *Proxy) Hits() (hits int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, r := range p.rules {
		hits += r.hits
	}
	return hits
}

func (p *Proxy) pick(sql string, transaction []string) (Rule, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	commit := strings.EqualFold(strings.TrimSpace(sql), "commit")
	for _, r := range p.rules {
		if r.Commit != commit || r.Times > 0 && r.hits == r.Times {
			continue
		}
		hit := strings.Contains(sql, r.Statement)
		for _, s := range transaction {
			hit = hit || commit && strings.Contains(s, r.Statement)
		}
		if hit {
			r.hits++
			return r.Rule, true
		}
	}
	return Rule{}, false
}

// link is one connection of a client and its twin to the server.
type link struct {
	client, server net.Conn
	pid            atomic.Uint32
	mute           atomic.Bool // what the server says is not passed on
	spoke          chan struct{}
}

func (l *link) cut() {
	if t, ok := l.client.(*net.TCPConn); ok {
		_ = t.SetLinger(0)
	}
	_ = l.client.Close()
	_ = l.server.Close()
}

func (p *Proxy) serve(client net.Conn) {
	var d net.Dialer
	server, err := d.DialContext(p.ctx, "tcp", p.target)
	if err != nil {
		_ = client.Close()
		return
	}
	l := &link{client: client, server: server, spoke: make(chan struct{}, 1)}
	defer l.cut()
	defer context.AfterFunc(p.ctx, l.cut)()
	p.wg.Go(func() { p.down(l) })
	p.up(l)
}

// message reads one frame: its type (0 for the first, which has none) and all
// its bytes.
func message(r *bufio.Reader, typed bool) (kind byte, frame []byte, err error) {
	head := 4
	if typed {
		head = 5
	}
	frame = make([]byte, head)
	if _, err = io.ReadFull(r, frame); err != nil {
		return 0, nil, err
	}
	if typed {
		kind = frame[0]
	}
	n := int(binary.BigEndian.Uint32(frame[head-4:])) - 4
	if n < 0 || n > 64<<20 {
		return 0, nil, fmt.Errorf("a frame of %d bytes", n)
	}
	body := make([]byte, n)
	if _, err = io.ReadFull(r, body); err != nil {
		return 0, nil, err
	}
	return kind, slices.Concat(frame, body), nil
}

// statement is the SQL of a frame, if it has any.
func statement(kind byte, frame []byte) (sql string, ok bool) {
	switch kind {
	case 'Q':
		sql, _, _ = strings.Cut(string(frame[5:]), "\x00")
	case 'P':
		_, rest, _ := bytes.Cut(frame[5:], []byte{0})
		sql, _, _ = strings.Cut(string(rest), "\x00")
	default:
		return "", false
	}
	return sql, true
}

// up carries what the client says.
func (p *Proxy) up(l *link) {
	r := bufio.NewReader(l.client)
	_, frame, err := message(r, false)
	if err != nil {
		return
	}
	if _, err := l.server.Write(frame); err != nil {
		return
	}
	var transaction []string
	for {
		kind, frame, err := message(r, true)
		if err != nil {
			return
		}
		if sql, ok := statement(kind, frame); ok {
			if strings.HasPrefix(strings.ToLower(sql), "begin") {
				transaction = transaction[:0]
			}
			transaction = append(transaction, sql)
			if rule, hit := p.pick(sql, transaction); hit && !p.befall(l, rule, frame, r) {
				return
			}
		}
		if _, err := l.server.Write(frame); err != nil {
			return
		}
	}
}

// befall carries a fault out and says whether the connection goes on.
func (p *Proxy) befall(l *link, rule Rule, frame []byte, r io.Reader) bool {
	switch rule.Fault {
	case KillBefore:
		p.Kill(l.pid.Load())
		return true
	case DelayThen:
		select {
		case <-time.After(rule.Delay):
		case <-p.ctx.Done():
		}
		return true
	case CutBefore:
		return false
	case CutAfter, HoleAfter, BlackHole:
		l.mute.Store(true)
	}
	if rule.Fault == BlackHole || rule.Fault == HoleAfter {
		if rule.Fault == HoleAfter {
			_, _ = l.server.Write(frame)
		}
		// The client may give up and close: the server must not learn of it.
		_, _ = io.Copy(io.Discard, r)
		<-p.ctx.Done()
		return false
	}
	if _, err := l.server.Write(frame); err == nil {
		select {
		case <-l.spoke:
		case <-p.ctx.Done():
		}
	}
	return false
}

// down carries what the server says, and learns the backend's process id.
func (p *Proxy) down(l *link) {
	defer func() {
		if !l.mute.Load() {
			l.cut()
		}
	}()
	r := bufio.NewReader(l.server)
	for {
		kind, frame, err := message(r, true)
		if err != nil {
			return
		}
		if kind == 'K' && len(frame) >= 13 {
			l.pid.Store(binary.BigEndian.Uint32(frame[5:]))
		}
		if l.mute.Load() {
			select {
			case l.spoke <- struct{}{}:
			default:
			}
			continue
		}
		if _, err := l.client.Write(frame); err != nil {
			return
		}
	}
}
