package configs

import (
	"fmt"
	"path"
	"strings"
)

// Schemes of a Location.
const (
	SchemeFile = "file"
	SchemeS3   = "s3"
)

// Location is a place in an object store.
type Location struct {
	// Scheme is SchemeFile or SchemeS3.
	Scheme string
	// Bucket is empty for files.
	Bucket string
	// Path has neither a slash before nor after it for S3, and is absolute and
	// clean for files. It is empty for a whole bucket.
	Path string
}

// ParseLocation reads s3://bucket/path or file:///path. The path is taken as
// it stands: nothing in it is escaped, and ? and # mean themselves. The error
// is the rule that was broken.
func ParseLocation(url string) (Location, error) {
	bad := fmt.Errorf("must be s3://bucket/path or file:///path")
	scheme, rest, ok := strings.Cut(url, "://")
	if !ok {
		return Location{}, bad
	}
	switch scheme {
	case SchemeFile:
		if !strings.HasPrefix(rest, "/") {
			return Location{}, fmt.Errorf("must be an absolute path, file:///path")
		}
		return Location{Scheme: SchemeFile, Path: path.Clean(rest)}, nil
	case SchemeS3:
		bucket, key, _ := strings.Cut(rest, "/")
		if bucket == "" || strings.ContainsAny(bucket, " @:?#\\") {
			return Location{}, fmt.Errorf("must name a bucket, s3://bucket/path")
		}
		key = strings.Trim(key, "/")
		if !cleanSegments(key) {
			return Location{}, fmt.Errorf("must not have empty, . or .. segments")
		}
		return Location{Scheme: SchemeS3, Bucket: bucket, Path: key}, nil
	}
	return Location{}, bad
}

// cleanSegments reports whether a path without outer slashes has only
// segments that every store and file system takes literally.
func cleanSegments(p string) bool {
	if p == "" {
		return true
	}
	for _, s := range strings.Split(p, "/") {
		if s == "" || s == "." || s == ".." {
			return false
		}
	}
	return true
}

// Contains reports whether o is l or below it.
func (l Location) Contains(o Location) bool {
	if l.Scheme != o.Scheme || l.Bucket != o.Bucket {
		return false
	}
	return l.Path == "" || l.Path == "/" || o.Path == l.Path || strings.HasPrefix(o.Path, l.Path+"/")
}

// Under is the location below l, l itself for an empty path.
func (l Location) Under(p string) Location {
	p = strings.Trim(p, "/")
	switch {
	case p == "":
		return l
	case l.Path == "" || l.Path == "/":
		l.Path += p
	default:
		l.Path += "/" + p
	}
	return l
}

// String is the URL again.
func (l Location) String() string {
	if l.Scheme == SchemeFile {
		return "file://" + l.Path
	}
	return strings.TrimSuffix(l.Scheme+"://"+l.Bucket+"/"+l.Path, "/")
}

// storePlace identifies a location across pipelines: buckets of one name behind
// two endpoints are two buckets.
type storePlace struct {
	endpoint string
	Location
}

func placeIn(s S3, l Location) storePlace {
	if l.Scheme == SchemeFile {
		return storePlace{Location: l}
	}
	return storePlace{endpoint: strings.ToLower(strings.TrimRight(s.Endpoint, "/")), Location: l}
}

func (p storePlace) contains(o storePlace) bool {
	return p.endpoint == o.endpoint && p.Contains(o.Location)
}
