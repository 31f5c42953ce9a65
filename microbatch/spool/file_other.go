//go:build !linux

package spool

import (
	"errors"
	"os"
)

// unnamed would make a file that has no name from the first.
func unnamed(string) (*os.File, error) { return nil, errors.ErrUnsupported }

// link would give a file a name.
func link(*os.File, string) error { return ErrNoFile }
