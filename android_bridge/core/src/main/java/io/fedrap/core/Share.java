package io.fedrap.core;

import java.util.Map;

/** Inside {@code sealed}: rows of the delta of C and the folded triangle, int8 with scales. */
final class Share {
    final byte[] rows; // u32 little-endian, ascending
    final byte[] scales; // f32 little-endian, one per row
    final byte[] values; // i8, k per row
    final byte[] triangleScales; // f32 little-endian, one per folded row
    final byte[] triangle; // i8, k per folded row
    final long fits; // see RowUpdate

    Share(
            byte[] rows,
            byte[] scales,
            byte[] values,
            byte[] triangleScales,
            byte[] triangle,
            long fits) {
        this.rows = rows;
        this.scales = scales;
        this.values = values;
        this.triangleScales = triangleScales;
        this.triangle = triangle;
        this.fits = fits;
    }

    byte[] encode() {
        Map<String, Object> map = Fields.start("share");
        map.put("rows", rows);
        map.put("scales", scales);
        map.put("values", values);
        map.put("triangle_scales", triangleScales);
        map.put("triangle", triangle);
        map.put("fits", fits);
        return MsgPack.encode(map);
    }
}
