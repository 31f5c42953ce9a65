package cgroup

import (
	"testing"
	"testing/fstest"
)

func TestMemory(t *testing.T) {
	t.Parallel()
	const mib, unlimited = "1048576", "9223372036854771712"
	cases := []struct {
		name  string
		files map[string]string
		want  int64 // 0: none
	}{
		{"no cgroups", nil, 0},
		{"a container's own root", map[string]string{"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": mib + "\n"}, 1 << 20},
		{"no membership, only a root", map[string]string{"sys/fs/cgroup/memory.max": mib}, 1 << 20},
		{"a systemd unit", map[string]string{
			"proc/self/cgroup": "0::/system.slice/deltad.service\n",
			"sys/fs/cgroup/system.slice/deltad.service/memory.max":      "2097152\n",
			"sys/fs/cgroup/system.slice/memory.max":                     "max\n",
			"sys/fs/cgroup/system.slice/other.service/memory.max":       "4096\n",
			"sys/fs/cgroup/system.slice/deltad.service/memory.high":     "4096\n",
			"sys/fs/cgroup/memory/system.slice/memory.max":              "4096\n",
			"sys/fs/cgroup/system.slice/deltad.service/sub/memory.max":  "4096\n",
			"sys/fs/cgroup/system.slice/deltad.service/memory.swap.max": "4096\n",
		}, 2 << 20},
		{"a group above binds more", map[string]string{
			"proc/self/cgroup":             "0::/a/b/c\n",
			"sys/fs/cgroup/a/b/c/x":        "",
			"sys/fs/cgroup/a/b/memory.max": "8388608\n", "sys/fs/cgroup/a/memory.max": "4194304\n",
			"sys/fs/cgroup/a/b/c/memory.max": "16777216\n",
		}, 4 << 20},
		{"max all the way", map[string]string{"proc/self/cgroup": "0::/a\n", "sys/fs/cgroup/a/memory.max": "max\n", "sys/fs/cgroup/memory.max": "max\n"}, 0},
		{"v1", map[string]string{
			"proc/self/cgroup": "5:devices:/x\n4:memory:/docker/0123\n",
			"sys/fs/cgroup/memory/docker/0123/memory.limit_in_bytes": "3145728\n", "sys/fs/cgroup/memory/memory.limit_in_bytes": unlimited,
			"sys/fs/cgroup/memory/x/memory.limit_in_bytes": "4096",
		}, 3 << 20},
		{"v1 among other controllers, a path with colons", map[string]string{
			"proc/self/cgroup": "4:cpu,memory:/a:b\n", "sys/fs/cgroup/memory/a:b/memory.limit_in_bytes": mib,
		}, 1 << 20},
		{"v1 without a limit", map[string]string{"proc/self/cgroup": "4:memory:/\n", "sys/fs/cgroup/memory/memory.limit_in_bytes": unlimited}, 0},
		{"v1 in a container that sees the path of the host", map[string]string{
			"proc/self/cgroup": "4:memory:/docker/0123\n", "sys/fs/cgroup/memory/memory.limit_in_bytes": mib,
		}, 1 << 20},
		{"hybrid", map[string]string{
			"proc/self/cgroup":                "4:memory:/svc\n0::/svc\n",
			"sys/fs/cgroup/svc/memory.max":    "max\n",
			"sys/fs/cgroup/unified/svc/tasks": "", "sys/fs/cgroup/memory/svc/memory.limit_in_bytes": mib,
		}, 1 << 20},
		{"a path out of the namespace", map[string]string{"proc/self/cgroup": "0::/../../other\n", "sys/fs/cgroup/memory.max": mib}, 1 << 20},
		{"nonsense", map[string]string{"proc/self/cgroup": "0:\nx\n\n0::/a\n", "sys/fs/cgroup/a/memory.max": "many\n", "sys/fs/cgroup/memory.max": "-1"}, 0},
		{"zero is no limit to work with", map[string]string{"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "0\n"}, 0},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			root := fstest.MapFS{}
			for name, text := range c.files {
				root[name] = &fstest.MapFile{Data: []byte(text)}
			}
			got, ok := Memory(root)
			if ok != (c.want > 0) || ok && got != c.want {
				t.Errorf("%d, %t; want %d", got, ok, c.want)
			}
		})
	}
}

// FuzzMemory: whatever the kernel's files say, a limit is positive and
// nothing is read outside of the mounts.
func FuzzMemory(f *testing.F) {
	f.Add("0::/a/b\n", "max\n")
	f.Add("4:memory:/../a\n0::/\n", "1048576\n")
	f.Fuzz(func(t *testing.T, groups, limit string) {
		root := fstest.MapFS{
			"proc/self/cgroup":         {Data: []byte(groups)},
			"sys/fs/cgroup/memory.max": {Data: []byte(limit)},
		}
		if n, ok := Memory(root); ok && n <= 0 {
			t.Errorf("a limit of %d", n)
		}
	})
}
