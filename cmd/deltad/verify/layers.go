package verify

import (
	"bytes"
	"context"
	"iter"

	"github.com/deltad/deltad/sink"
	"github.com/deltad/deltad/sink/parquet"
)

// saying is a list of files of one layer, and the key that it stands at.
type saying struct {
	what  string // document, tombstone or left
	layer int
	next  func() ([]byte, error, bool)
	stop  func()
	key   []byte
	more  bool
}

// step goes on to the next key.
func (s *saying) step() (err error) {
	s.key, err, s.more = s.next()
	return err
}

// documents reads everything that a manifest says of keys, layer beside layer:
// one layer says one thing of a key, and what counts, of the highest, is what
// the manifest counts.
func (d *data) documents(ctx context.Context, m sink.Manifest) error {
	fields, err := parquet.Fields(m.Schema)
	if err != nil {
		d.keys.add("%s: %v", m.Key(), err)
		return nil
	}
	damaged := d.files.n + d.keys.n
	var all []*saying
	defer func() {
		for _, s := range all {
			s.stop()
		}
	}()
	key := parquet.KeyFields(fields)
	for _, l := range m.Layers() {
		for _, s := range []*saying{{what: "document"}, {what: "tombstone"}, {what: "left"}} {
			files, columns := l.Files, fields
			switch s.what {
			case "tombstone":
				files, columns = l.Tombstones, key
			case "left":
				files, columns = l.Left, key
			}
			if len(files) == 0 {
				continue
			}
			s.layer = l.N
			s.next, s.stop = iter.Pull2(d.walk(ctx, files, columns))
			all = append(all, s)
			if err := s.step(); err != nil {
				return err
			}
		}
	}
	documents, tombstones, err := d.resolve(m, all)
	if err != nil || damaged != d.files.n+d.keys.n {
		return err
	}
	if documents != m.Counts.Documents || m.Kind == sink.Delta && tombstones != m.Counts.Tombstones {
		d.keys.add("%s: %d documents and %d tombstones come of its layers, %d and %d are counted",
			m.Key(), documents, tombstones, m.Counts.Documents, m.Counts.Tombstones)
	}
	return nil
}

// resolve walks all keys in order and counts what they are.
func (d *data) resolve(m sink.Manifest, all []*saying) (documents, tombstones int64, err error) {
	for {
		var key []byte
		for _, s := range all {
			if s.more && (key == nil || bytes.Compare(s.key, key) < 0) {
				key = s.key
			}
		}
		if key == nil {
			return documents, tombstones, nil
		}
		var top *saying // all has the layers in their order
		for _, s := range all {
			if !s.more || !bytes.Equal(s.key, key) {
				continue
			}
			if top != nil && top.layer == s.layer {
				d.keys.add("%s: a key has both a %s and a %s in layer %d: %x", m.Key(), top.what, s.what, s.layer, key)
			}
			top = s
			if err := s.step(); err != nil {
				return 0, 0, err
			}
		}
		switch top.what {
		case "document":
			documents++
		case "tombstone":
			tombstones++
		}
	}
}
