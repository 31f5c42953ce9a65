// Package open turns URLs into stores. It is apart from package store so that what only uses a store does not link every
// implementation.
//
//	s3://bucket/prefix    a bucket, rooted at the prefix
//	file:///dir           a directory
//	mem://name/prefix     a store that the caller brings, for tests
//
// What follows the scheme is taken literally: nothing is percent-decoded, "?" and "#" mean nothing. A prefix is a folder whether or not
// it ends in a slash: s3://b/ads is rooted at "ads/" and does not see "ads-old/".
package open

import (
	"context"
	"fmt"
	"strings"

	"github.com/deltad/deltad/store"
	"github.com/deltad/deltad/store/file"
	"github.com/deltad/deltad/store/s3"
)

// Options are what a URL does not say.
type Options struct {
	// S3 is for s3:// URLs; its Bucket comes from the URL.
	S3 s3.Options
	// Mem are the stores that mem:// URLs name.
	Mem map[string]store.Store
}

// Open returns the store at a URL. It sends nothing and creates nothing.
func Open(ctx context.Context, url string, o Options) (store.Store, error) {
	loc, err := Parse(url)
	if err != nil {
		return nil, err
	}
	switch loc.Scheme {
	case "s3":
		o.S3.Bucket = loc.Name
		st, err := s3.New(ctx, o.S3)
		if err != nil {
			return nil, err
		}
		return store.Prefixed(st, loc.Prefix), nil
	case "file":
		return file.New("/" + strings.TrimSuffix(loc.Prefix, "/"))
	}
	st, ok := o.Mem[loc.Name]
	if !ok {
		return nil, fmt.Errorf("open %s: there is no store of that name in this process", url)
	}
	return store.Prefixed(st, loc.Prefix), nil
}

// Location is a URL in parts.
type Location struct {
	// Scheme is "s3", "file" or "mem".
	Scheme string
	// Name is the bucket, or the name after mem://; empty for files.
	Name string
	// Prefix is empty or ends in "/"; for files it is the directory without the leading "/".
	Prefix string
}

// Parse takes a URL apart.
func Parse(url string) (Location, error) {
	scheme, rest, ok := strings.Cut(url, "://")
	if !ok {
		return Location{}, fmt.Errorf("store URL %q: want s3://bucket/prefix or file:///dir", url)
	}
	name, prefix, _ := strings.Cut(rest, "/")
	switch scheme {
	case "s3", "mem":
		if name == "" {
			return Location{}, fmt.Errorf("store URL %q: no bucket", url)
		}
	case "file":
		if name != "" {
			return Location{}, fmt.Errorf("store URL %q: want three slashes and an absolute path, file:///dir", url)
		}
		prefix = clean(prefix)
		if prefix == "" {
			return Location{}, fmt.Errorf("store URL %q: no directory", url)
		}
	default:
		return Location{}, fmt.Errorf("store URL %q: scheme %q is none of s3, file", url, scheme)
	}
	if strings.HasPrefix(prefix, "/") || strings.Contains(prefix, "//") {
		return Location{}, fmt.Errorf("store URL %q: empty segment in the prefix", url)
	}
	if prefix != "" && !strings.HasSuffix(prefix, "/") {
		prefix += "/"
	}
	if prefix != "" {
		if err := store.CheckKey(prefix); err != nil {
			return Location{}, fmt.Errorf("store URL %q: %w", url, err)
		}
	}
	return Location{Scheme: scheme, Name: name, Prefix: prefix}, nil
}

// clean resolves empty, "." and ".." segments of a directory's path.
func clean(path string) string {
	var out []string
	for seg := range strings.SplitSeq(path, "/") {
		switch seg {
		case "", ".":
		case "..":
			if len(out) > 0 {
				out = out[:len(out)-1]
			}
		default:
			out = append(out, seg)
		}
	}
	return strings.Join(out, "/")
}
