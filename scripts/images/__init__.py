"""
The makers of the product's images, run by scripts/build-images.

    debian      the base's Debian packages, fetched and verified by apt
    rootfs      those packages as a root folder: pruned, compiled, without a shell
    closure     what an image has to hold, out of requirements.txt, with hashes
    sites       that, installed into a folder: pruned and stripped
    images      the four images by name, and where they end up
    buildah     the engine, told to make the same digest each time
    inside/     what runs or lies inside an image
    fips/       OpenSSL's configurations of the FIPS variants
"""
