#!/bin/sh
# certificates.sh FOLDER NAME...: an authority, and for each broker a certificate and a key by which its neighbours know it.
# What is there already stays. The folder is readable by the broker's user; keep ca.key somewhere else in earnest.
set -eu
folder=$1; shift
mkdir -p "$folder"
cd "$folder"
if [ ! -f ca.pem ]; then
  openssl req -x509 -newkey rsa:2048 -nodes -days 3650 -subj "/CN=roamcast brokers" -keyout ca.key -out ca.pem \
    -addext "basicConstraints=critical,CA:TRUE" -addext "keyUsage=critical,keyCertSign,cRLSign"
fi
for name in "$@"; do
  [ -f "$name.pem" ] && continue
  openssl req -newkey rsa:2048 -nodes -subj "/CN=$name" -keyout "$name.key" -out "$name.csr"
  printf 'subjectAltName=DNS:%s\nextendedKeyUsage=serverAuth,clientAuth\n' "$name" > "$name.ext"
  openssl x509 -req -days 825 -in "$name.csr" -CA ca.pem -CAkey ca.key -CAcreateserial -extfile "$name.ext" -out "$name.pem"
  rm "$name.csr" "$name.ext"
  chmod 644 "$name.key"
done
