#!/bin/sh
# small_store.sh COMMAND...: runs it with SMALL_STORE_OF_BACKSTAY naming a new file system of 24 MiB that nothing else
# sees and that ends with the command. Status 77 where that may not be mounted.
set -u
place=$(mktemp -d) || exit 2
trap 'rmdir "$place"' EXIT
for private in "unshare --mount" "unshare --mount --map-root-user"; do
  $private mount -t tmpfs -o size=24m none "$place" 2>/dev/null || continue
  SMALL_STORE_OF_BACKSTAY=$place $private sh -c \
    'mount -t tmpfs -o size=24m none "$SMALL_STORE_OF_BACKSTAY" && exec "$@"' sh "$@"
  exit $?
done
echo "a small file system may not be mounted here"
exit 77
