package duck_test

import (
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/deltad/deltad/e2e/duck"
)

func open(t *testing.T) *duck.DB {
	t.Helper()
	db, err := duck.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

func TestParquetRoundTrip(t *testing.T) {
	ctx, db := t.Context(), open(t)
	file := filepath.Join(t.TempDir(), "x.parquet")
	if err := db.Exec(ctx, `create table x as select * from (values
		(1::bigint, 'a', timestamp '2026-01-02 03:04:05'), (2, null, null)) v(n, s, t)`); err != nil {
		t.Fatal(err)
	}
	if err := db.Exec(ctx, `copy x to '`+file+`' (format parquet)`); err != nil {
		t.Fatal(err)
	}
	got, err := db.Query(ctx, `select * from read_parquet(?) order by n`, file)
	if err != nil {
		t.Fatal(err)
	}
	want := []duck.Row{
		{"n": int64(1), "s": "a", "t": time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)},
		{"n": int64(2), "s": nil, "t": nil},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestJSONIsCompiledIn(t *testing.T) {
	got, err := open(t).Query(t.Context(), `select json_extract_string('{"a":"b"}', 'a') v`)
	if err != nil {
		t.Fatal(err)
	}
	if want := []duck.Row{{"v": "b"}}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestErrorsNameTheQuery(t *testing.T) {
	_, err := open(t).Query(t.Context(), `select nonsense`)
	if err == nil || !strings.Contains(err.Error(), `"select nonsense"`) {
		t.Errorf("error %v does not name the query", err)
	}
}
