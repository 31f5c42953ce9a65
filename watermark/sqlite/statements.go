package sqlite

import (
	"context"
	"database/sql/driver"
	"fmt"

	lib "modernc.org/sqlite"
)

// A store says the same few dozen sentences again and again, and SQLite takes
// longer to parse and plan most of them than to do what they say. So a
// connection keeps its statements prepared. What a statement does is not
// changed by that: SQLite prepares one again by itself when the schema is
// another.

// mostStatements bounds the statements that a connection keeps, each of which
// has some kilobytes. Where there are more, they begin anew.
const mostStatements = 128

// connector opens connections that keep their statements.
type connector struct{ driver.Connector }

func newConnector(dsn string) (driver.Connector, error) {
	c, err := lib.NewConnector(dsn)
	return connector{c}, err
}

// Connect implements driver.Connector.
func (c connector) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	whole, ok := conn.(connection)
	if !ok {
		return nil, fmt.Errorf("a connection of the driver is a %T", conn)
	}
	return &keeping{connection: whole, kept: map[string]*kept{}}, nil
}

// connection is what a connection of the driver can do, but for running a text
// on its own: database/sql then prepares every text.
type connection interface {
	driver.Conn
	driver.ConnBeginTx
	driver.ConnPrepareContext
	driver.Pinger
	driver.SessionResetter
	driver.Validator
}

// keeping is a connection that keeps its statements. Like every connection it is
// for one goroutine at a time.
type keeping struct {
	connection
	kept map[string]*kept
}

// statement is what a statement of the driver can do.
type statement interface {
	driver.Stmt
	driver.StmtExecContext
	driver.StmtQueryContext
}

// kept is a statement that stays prepared when it is closed.
type kept struct {
	statement
	lent bool // from when it is prepared until it is closed
}

// Close implements driver.Stmt.
func (k *kept) Close() error {
	k.lent = false
	return nil
}

// Unwrap returns the driver's own connection, which the driver asks for.
func (c *keeping) Unwrap() driver.Conn { return c.connection }

// Prepare implements driver.Conn.
func (c *keeping) Prepare(text string) (driver.Stmt, error) {
	return c.PrepareContext(context.Background(), text)
}

// PrepareContext implements driver.ConnPrepareContext.
func (c *keeping) PrepareContext(ctx context.Context, text string) (driver.Stmt, error) {
	known := c.kept[text]
	if known != nil && !known.lent {
		known.lent = true
		return known, nil
	}
	s, err := c.connection.PrepareContext(ctx, text)
	if err != nil {
		return nil, err
	}
	own, ok := s.(statement)
	if known != nil || !ok {
		return s, nil // its rows are being read: another one, for once
	}
	if len(c.kept) >= mostStatements {
		if err := c.let(func(k *kept) bool { return !k.lent }); err != nil {
			_ = s.Close() // the error says more
			return nil, err
		}
	}
	known = &kept{own, true}
	c.kept[text] = known
	return known, nil
}

// let lets go of statements.
func (c *keeping) let(which func(*kept) bool) (err error) {
	for text, k := range c.kept {
		if !which(k) {
			continue
		}
		delete(c.kept, text)
		if e := k.statement.Close(); err == nil {
			err = e
		}
	}
	return err
}

// Close implements driver.Conn.
func (c *keeping) Close() error {
	err := c.let(func(*kept) bool { return true })
	if e := c.connection.Close(); e != nil {
		return e
	}
	return err
}
